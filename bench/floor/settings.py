"""Settings of the floor: WetBench's database and templates, with as little middleware as possible."""

from wetbench_site.settings import (
    ALLOWED_HOSTS,
    AUTHENTICATION_BACKENDS,
    BASE_DIR,
    CACHES,
    DATABASES,
    DEFAULT_AUTO_FIELD,
    SECRET_KEY,
    SESSION_COOKIE_NAME,
    STATIC_URL,
    STATICFILES_DIRS,
    TEMPLATES,
    USE_TZ,
)
from wetbench_site.settings import INSTALLED_APPS as SITE_APPS

__all__ = [
    "ALLOWED_HOSTS", "AUTHENTICATION_BACKENDS", "BASE_DIR", "CACHES", "DATABASES", "DEFAULT_AUTO_FIELD", "INSTALLED_APPS", "MIDDLEWARE",
    "ROOT_URLCONF", "SECRET_KEY", "SESSION_COOKIE_NAME", "STATICFILES_DIRS", "STATIC_URL", "TEMPLATES", "USE_TZ",
]  # fmt: skip
INSTALLED_APPS = [*SITE_APPS, "bench.floor"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.common.CommonMiddleware",  # sets Content-Length, which bench.rater_clients needs
]
ROOT_URLCONF = "bench.floor.urls"
