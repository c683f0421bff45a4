"""The WSGI application that gunicorn serves. It does not start unfit, and embedded it answers its own machine alone."""

import os
import sys

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from wetbench_site import loopback, starting
from wetbench_site.environment import Unusable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")

site = get_wsgi_application()
try:
    starting.refuse_unfit()
except Unusable as error:
    sys.stderr.write(f"{error}\n")
    sys.exit(4)  # gunicorn's code for "it cannot be loaded": with another one it would try again for ever
get_resolver().check()  # imports every page now, not while somebody waits for the first
application = site if settings.PRODUCTION else loopback.loopback_alone(site)
