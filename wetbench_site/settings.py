"""Settings, from the environment (wetbench_site/environment.py). With none: SQLite, loopback only, no broker."""

import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url

from wetbench_site import environment
from wetbench_site.observability import logs

BASE_DIR = Path(__file__).resolve().parent.parent
# Every variable is declared there; whatever is wrong with one stops the start here.
ENVIRONMENT = environment.read(os.environ)
PRODUCTION = ENVIRONMENT.production


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


VAR_DIR = Path(ENVIRONMENT.text("WETBENCH_VAR_DIR") or BASE_DIR / "var")
FIXTURES_DIR = BASE_DIR / "fixtures"
SECRET_KEY = ENVIRONMENT.text("SECRET_KEY") or kept_secret(VAR_DIR / "secret_key")
SECRET_KEY_FALLBACKS = ENVIRONMENT.names("WETBENCH_OLD_SECRET_KEYS")
DEBUG = ENVIRONMENT.flag("WETBENCH_DEBUG")
ALLOWED_HOSTS = ENVIRONMENT.names("WETBENCH_HOSTS")
METRICS_TOKEN = ENVIRONMENT.text("WETBENCH_METRICS_TOKEN")
DISK_FREE_MB = ENVIRONMENT.whole("WETBENCH_DISK_FREE_MB")  # with less the site is not ready
PROXIES = ENVIRONMENT.whole("WETBENCH_PROXIES")  # how many stand before the site, each adding to X-Forwarded-For

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "wetbench_site",  # before those whose commands it wraps
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "axes",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "simulation",
    "ratings",
]
MIDDLEWARE = [
    "wetbench_site.middleware.request_id.traced",
    "wetbench_site.middleware.security.protective_headers",
    "wetbench_site.observability.health.machines_first",
    "ratings.api.problems.problem_documents",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "wetbench_site.middleware.security.LargePages",
    "wetbench_site.middleware.security.seen_as_written",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "wetbench_site.access_table.AccessTable",
    "wetbench_site.middleware.security.SignInRequired",
    "wetbench_site.middleware.second_step_first.SecondStepFirst",
    "django.middleware.csrf.CsrfViewMiddleware",  # reads the body, of those alone who may send one
    "wetbench_site.middleware.write_limit.WriteLimit",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
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
        dj_database_url.parse(ENVIRONMENT.text("DATABASE_URL") or f"sqlite:///{VAR_DIR / 'wetbench.sqlite3'}")
    )
    if chosen["ENGINE"] == "django.db.backends.sqlite3":
        chosen["ENGINE"] = "wetbench_site.sqlite"
        # IMMEDIATE takes the write lock when a transaction begins: read-then-write cannot deadlock, it waits.
        # FULL keeps a confirmed rating through a power cut. 16 MB of pages are kept by a connection: with the 2 MB that
        # are usual, a count over 50,000 ratings takes three times as long.
        chosen["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000;",
        }
        # Kept by each thread: closing the last one writes the whole log back into the file, which takes longer than a rating.
        chosen["CONN_MAX_AGE"] = None
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
# Where a blinding audit on PostgreSQL puts its copy, if the role of DATABASE_URL may not create databases.
SCRATCH_DATABASE_URL = ENVIRONMENT.text("WETBENCH_SCRATCH_DATABASE_URL")
# Each process keeps the items it has drawn (ratings/web/rater/drawn_items.py): some 20 MB at most.
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "drawn_items": {
        "BACKEND": f"django.core.cache.backends.{'dummy.DummyCache' if DEBUG else 'locmem.LocMemCache'}",
        "LOCATION": "drawn_items",
        "TIMEOUT": None,
        "OPTIONS": {"MAX_ENTRIES": 600},
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

# Raters sign in by name or e-mail address; most have no password and come by a link.
AUTHENTICATION_BACKENDS = ["ratings.accounts.signing_in.NameOrEmail"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("MinimumLengthValidator", {"min_length": 12}),
        ("CommonPasswordValidator", {}),
        ("UserAttributeSimilarityValidator", {}),
    )
] + [{"NAME": "ratings.accounts.passwords.MaximumLengthValidator"}]
# The first makes; the others read what older versions made, which is made anew at the next sign-in.
PASSWORD_HASHERS = [
    "ratings.accounts.passwords.Argon2",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
# Wrong passwords: eight for one account from one address, then a quarter of an hour without.
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_USERNAME_CALLABLE = "ratings.accounts.throttling.named"
AXES_CLIENT_IP_CALLABLE = "ratings.accounts.throttling.counted_address"
AXES_LOCKOUT_CALLABLE = "ratings.accounts.throttling.locked_out"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # else whoever goes on guessing keeps the owner out
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # the log of security events tells it
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = [
    *("username", "code", "csrfmiddlewaretoken", "confirm_password"),
    *("old_password", "new_password1", "new_password2", "password1", "password2"),
]
# Who may see where items come from needs a second step where a site is exposed.
SECOND_STEP_REQUIRED = PRODUCTION
OTP_TOTP_ISSUER = "WetBench"
# A brake on what runs wild, per person.
WRITES_PER_MINUTE = ENVIRONMENT.whole("WETBENCH_WRITES_PER_MINUTE")
EXPORTS_PER_HOUR = ENVIRONMENT.whole("WETBENCH_EXPORTS_PER_HOUR")
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_ENGINE = "ratings.accounts.sessions"
SESSION_COOKIE_AGE = 12 * 3600  # without a visit; ratings/accounts/sessions.py has the longest
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENVIRONMENT.flag("WETBENCH_HTTPS")
# Browsers take a cookie of such a name over HTTPS alone, from this very host, and from no other of its domain.
SESSION_COOKIE_NAME = f"{'__Host-' if SESSION_COOKIE_SECURE else ''}wb_session"
CSRF_COOKIE_NAME = f"{'__Host-' if SESSION_COOKIE_SECURE else ''}wb_csrf"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# Exposed, everything goes over HTTPS, for a year of the browser's memory. A proxy's word for it is believed only where
# one is said to be there; health is asked without it, from inside.
SECURE_SSL_REDIRECT = PRODUCTION and SESSION_COOKIE_SECURE
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if SECURE_SSL_REDIRECT else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PROXIES else None
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # to be preloaded by browsers is for whoever owns the domain to ask
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500
DATA_UPLOAD_MAX_NUMBER_FILES = 1
FILE_UPLOAD_HANDLERS = [
    "wetbench_site.middleware.receiving.OneBoundedFile",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

API_PER_MINUTE = ENVIRONMENT.whole("WETBENCH_API_PER_MINUTE")  # requests of one token to one web process

# Mail is printed to the console until a server is named.
SITE_URL = ENVIRONMENT.text("WETBENCH_URL")  # where the site is, for links in letters; else as a request came in
CSRF_TRUSTED_ORIGINS = [SITE_URL] if SITE_URL else []
EMAIL_HOST = ENVIRONMENT.text("EMAIL_HOST")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"
EMAIL_PORT = ENVIRONMENT.whole("EMAIL_PORT")
EMAIL_HOST_USER = ENVIRONMENT.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = ENVIRONMENT.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_SSL = ENVIRONMENT.flag("EMAIL_USE_SSL")
EMAIL_USE_TLS = ENVIRONMENT.flag("EMAIL_USE_TLS") and not EMAIL_USE_SSL
EMAIL_TIMEOUT = ENVIRONMENT.number("EMAIL_TIMEOUT")
DEFAULT_FROM_EMAIL = SERVER_EMAIL = ENVIRONMENT.text("EMAIL_FROM")

# No broker named: `manage.py work` plays everything in its own threads, from the same rows.
CELERY_BROKER_URL = ENVIRONMENT.text("CELERY_BROKER_URL")
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
PACE = ENVIRONMENT.number("WETBENCH_PACE")
LEASE_SECONDS = 60 * PACE
HEARTBEAT_SECONDS = 15 * PACE
POLL_SECONDS = 1 * PACE
RING_AGAIN_SECONDS = 15 * PACE
SWEEP_SECONDS = 15 * PACE
WORKER_SILENT_SECONDS = 90 * PACE
LOST_LEASES_ALLOWED = 3
JOB_FILE_DAYS = ENVIRONMENT.number("WETBENCH_JOB_FILE_DAYS")  # how long the files of a job that has ended are kept
TURN_SECONDS = 60 * PACE  # how long one task plays the same row before others have their turn

# Calls of language models. How long one may take is not paced: models think as long as they think.
CALL_SECONDS = ENVIRONMENT.number("WETBENCH_CALL_SECONDS")
PROVIDER_CALLS_START = ENVIRONMENT.whole("WETBENCH_PROVIDER_START")
PROVIDER_CALLS_MAX = ENVIRONMENT.whole("WETBENCH_PROVIDER_CALLS")
GATE_LOWER_SECONDS = 15 * PACE
GATE_PAUSE_SECONDS, GATE_PAUSE_MAX_SECONDS = 1 * PACE, 120 * PACE
CIRCUIT_FAULTS = 5
CIRCUIT_PAUSE_SECONDS, CIRCUIT_PAUSE_MAX_SECONDS = 5 * PACE, 300 * PACE
SLOT_WAIT_SECONDS = 2 * PACE
RETRY_SECONDS, RETRY_MAX_SECONDS, RETRY_WINDOW_SECONDS = 2 * PACE, 120 * PACE, 1800 * PACE
RETRY_ATTEMPTS = 10
RETRY_AFTER_MAX_SECONDS = 600
PRICE_SECONDS = 60  # how long a process believes a price it has read
TALLY_SECONDS = 60  # how long a process keeps what it counted for pages of a study or for /metrics; 0: not at all

# Every process, gunicorn's and Celery's too, writes the same lines to standard error.
REQUEST_LOG = ENVIRONMENT.flag("WETBENCH_REQUEST_LOG")
LOGGING = logs.configuration(
    ENVIRONMENT.text("WETBENCH_LOG_FORMAT"),
    ENVIRONMENT.text("WETBENCH_LOG_LEVEL"),
    environment.secrets(os.environ) | {SECRET_KEY},
)
DEFAULT_EXCEPTION_REPORTER = "wetbench_site.observability.fault_reports.WithoutLocals"
