"""The WSGI application that gunicorn serves. It does not start with invalid settings.

In the embedded profile it serves only this machine.
"""

import os
import sys

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from wetbench_site import checks, loopback_only
from wetbench_site.environment import InvalidConfiguration

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")

site = get_wsgi_application()
try:
    checks.check_site()
except InvalidConfiguration as error:
    sys.stderr.write(f"{error}\n")
    # gunicorn's code for an application that cannot be loaded; it would restart the worker for ever after another one.
    sys.exit(4)
get_resolver().check()  # imports all views now instead of during the first request
application = site if settings.PRODUCTION else loopback_only.serve_loopback_only(site)
