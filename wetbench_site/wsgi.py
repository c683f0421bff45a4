"""The WSGI application that gunicorn serves. It does not start with invalid settings.

In the embedded profile it serves only this machine.
"""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.urls import get_resolver

from wetbench_site import checks, loopback_only
from wetbench_site.environment import InvalidConfiguration
from wetbench_site.middleware import static_files
from wetbench_site.request_threads import call_in_large_frame, take_turn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")

django.setup()
static_files.collect_if_changed()  # before the middleware lists the files
site = get_wsgi_application()
try:
    checks.check_site()
except InvalidConfiguration as error:
    sys.stderr.write(f"{error}\n")
    # gunicorn's code for an application that cannot be loaded; it would restart the worker for ever after another one.
    sys.exit(4)
get_resolver().check()  # imports all views now instead of during the first request
_served = site if settings.PRODUCTION else loopback_only.serve_loopback_only(site)


_wait_for_turn = take_turn if connection.vendor == "sqlite" else nullcontext


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request with enough room for the frames of Django's many calls; on SQLite, one request after the other."""
    with _wait_for_turn():
        return call_in_large_frame(_served, environ, start_response)
