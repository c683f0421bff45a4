"""Settings. With no environment at all: SQLite, loopback only, an embedded worker and no broker."""

import os
import secrets
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def env_text(name: str, default: str) -> str:
    return os.environ.get(name, "") or default


def env_number(name: str, default: float) -> float:
    """A positive number from the environment; a malformed one stops the start."""
    text = env_text(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be a positive number")
    return number


def env_flag(name: str, default: bool) -> bool:
    text = env_text(name, "true" if default else "false")
    if text not in ("true", "false"):
        raise ImproperlyConfigured(f"{name} is {text!r}; it must be true or false")
    return text == "true"


def kept_secret(path: Path) -> str:
    """The secret key of this installation: made once, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(made := secrets.token_urlsafe(64))
    return made


VAR_DIR = Path(env_text("WETBENCH_VAR_DIR", str(BASE_DIR / "var")))
FIXTURES_DIR = BASE_DIR / "fixtures"
SECRET_KEY = os.environ.get("SECRET_KEY") or kept_secret(VAR_DIR / "secret_key")
DEBUG = env_flag("WETBENCH_DEBUG", False)
ALLOWED_HOSTS = env_text("WETBENCH_HOSTS", "localhost,127.0.0.1,[::1]").split(",")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "simulation",
    "ratings",
]
MIDDLEWARE = [
    "wetbench_site.security.content_security_policy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "wetbench_site.security.LargePages",
    "wetbench_site.security.seen_as_written",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "wetbench_site.access_table.AccessTable",
    "wetbench_site.security.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "wetbench_site.urls"
WSGI_APPLICATION = "wetbench_site.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def database() -> dict[str, Any]:
    """DATABASE_URL if there is one, else SQLite under var/."""
    chosen: dict[str, Any] = dict(
        dj_database_url.parse(env_text("DATABASE_URL", f"sqlite:///{VAR_DIR / 'wetbench.sqlite3'}"))
    )
    if chosen["ENGINE"] == "django.db.backends.sqlite3":
        # IMMEDIATE takes the write lock when a transaction begins: read-then-write cannot deadlock, it waits.
        # FULL keeps a confirmed rating through a power cut.
        chosen["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
        chosen["TEST"] = {"NAME": None}
    else:
        limits = "-c statement_timeout=15000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000"
        # Hundreds of threads share ten connections of a process: none is held while a model thinks.
        pool = {"min_size": 0, "max_size": 10, "timeout": 20, "max_idle": 60}
        chosen |= {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}
        # The same few statements by the hundred a second: the server keeps them planned (a third of its time).
        prepared = {"server_side_binding": True, "prepare_threshold": 3}
        defaults = {"options": limits, "connect_timeout": 5, "pool": pool, **prepared}
        chosen["OPTIONS"] = defaults | chosen.get("OPTIONS", {})
    return chosen


DATABASES = {"default": database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

# Raters sign in by name or e-mail address; most have no password and come by a link.
AUTHENTICATION_BACKENDS = ["ratings.signing_in.NameOrEmail"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("MinimumLengthValidator", {"min_length": 12}),
        ("CommonPasswordValidator", {}),
        ("UserAttributeSimilarityValidator", {}),
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_AGE = 7 * 24 * 3600
SESSION_COOKIE_NAME = "wb_session"
CSRF_COOKIE_NAME = "wb_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env_flag("WETBENCH_HTTPS", False)
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

# Mail is printed to the console until a server is named.
SITE_URL = env_text("WETBENCH_URL", "")  # where the site is, for links in letters; else as a request came in
EMAIL_HOST = env_text("EMAIL_HOST", "")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"
EMAIL_PORT = int(env_number("EMAIL_PORT", 587))
EMAIL_HOST_USER = env_text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env_text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL = env_flag("EMAIL_USE_SSL", False)
EMAIL_USE_TLS = env_flag("EMAIL_USE_TLS", not EMAIL_USE_SSL)
EMAIL_TIMEOUT = env_number("EMAIL_TIMEOUT", 20)
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env_text("EMAIL_FROM", "WetBench <wetbench@localhost>")

# No broker named: `manage.py work` plays everything in its own threads, from the same rows.
CELERY_BROKER_URL = env_text("CELERY_BROKER_URL", "")
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Threads cannot be interrupted from outside: what ends a call is our transport's own deadline.
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "visibility_timeout": 3600,
}

# Seconds of the runner's clockwork. WETBENCH_PACE shortens them all alike; tests run at a twentieth.
PACE = env_number("WETBENCH_PACE", 1.0)
LEASE_SECONDS = 60 * PACE
HEARTBEAT_SECONDS = 15 * PACE
POLL_SECONDS = 1 * PACE
RING_AGAIN_SECONDS = 15 * PACE
SWEEP_SECONDS = 15 * PACE
WORKER_SILENT_SECONDS = 90 * PACE
LOST_LEASES_ALLOWED = 3
JOB_FILE_DAYS = env_number("WETBENCH_JOB_FILE_DAYS", 7)  # how long the files of a job that has ended are kept
TURN_SECONDS = 60 * PACE  # how long one task plays the same row before others have their turn

# Calls of language models. How long one may take is not paced: models think as long as they think.
CALL_SECONDS = env_number("WETBENCH_CALL_SECONDS", 300)
PROVIDER_CALLS_START = int(env_number("WETBENCH_PROVIDER_START", 20))
PROVIDER_CALLS_MAX = int(env_number("WETBENCH_PROVIDER_CALLS", 64))
GATE_LOWER_SECONDS = 15 * PACE
GATE_PAUSE_SECONDS, GATE_PAUSE_MAX_SECONDS = 1 * PACE, 120 * PACE
CIRCUIT_FAULTS = 5
CIRCUIT_PAUSE_SECONDS, CIRCUIT_PAUSE_MAX_SECONDS = 5 * PACE, 300 * PACE
SLOT_WAIT_SECONDS = 2 * PACE
RETRY_SECONDS, RETRY_MAX_SECONDS, RETRY_WINDOW_SECONDS = 2 * PACE, 120 * PACE, 1800 * PACE
RETRY_ATTEMPTS = 10
RETRY_AFTER_MAX_SECONDS = 600
PRICE_SECONDS = 60  # how long a process believes a price it has read

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "wetbench": {"handlers": ["console"], "level": env_text("WETBENCH_LOG_LEVEL", "INFO")},
        "django.request": {"handlers": ["console"], "level": "ERROR", "propagate": False},
    },
}
