"""Settings, from environment variables (wetbench_site/environment.py). Without any: SQLite, loopback only, no broker."""

import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

import dj_database_url

from wetbench_site import environment
from wetbench_site.observability import logs

BASE_DIR = Path(__file__).resolve().parent.parent
# Every variable is declared in environment.py; an invalid value stops the start here.
ENVIRONMENT = environment.load_environment(os.environ)
PRODUCTION = ENVIRONMENT.is_production


def load_or_create_secret(path: Path) -> str:
    """Return the secret key of this installation. Create it on the first call, readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # O_EXCL: of two processes that start at once, one creates the file and the other reads it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret := secrets.token_urlsafe(64))
    return secret


VAR_DIR = Path(ENVIRONMENT.get_text("WETBENCH_VAR_DIR") or BASE_DIR / "var")
FIXTURES_DIR = BASE_DIR / "fixtures"
SECRET_KEY = ENVIRONMENT.get_text("SECRET_KEY") or load_or_create_secret(VAR_DIR / "secret_key")
SECRET_KEY_FALLBACKS = ENVIRONMENT.get_list("WETBENCH_OLD_SECRET_KEYS")
DEBUG = ENVIRONMENT.get_flag("WETBENCH_DEBUG")
ALLOWED_HOSTS = ENVIRONMENT.get_list("WETBENCH_HOSTS")
METRICS_TOKEN = ENVIRONMENT.get_text("WETBENCH_METRICS_TOKEN")
DISK_FREE_MB = ENVIRONMENT.get_integer("WETBENCH_DISK_FREE_MB")  # below this, /readyz reports a failure
PROXIES = ENVIRONMENT.get_integer("WETBENCH_PROXIES")  # in front of the site; each adds an entry to X-Forwarded-For

INSTALLED_APPS = [
    "wetbench_site",  # before the apps whose commands it wraps
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
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
    # Outermost: its timing and its request id cover everything below, errors included.
    "wetbench_site.middleware.request_id.request_id_middleware",
    "wetbench_site.middleware.security.security_headers_middleware",
    # Before host names, HTTPS and sessions are checked: probes ask from inside, by IP address.
    "wetbench_site.observability.health.machine_endpoints_middleware",
    "ratings.api.responses.problem_documents",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "wetbench_site.middleware.security.CompressLargePages",
    "wetbench_site.middleware.security.compress_items_middleware",
    "wetbench_site.middleware.security.invisible_characters_middleware",
    "ratings.accounts.sessions.SessionAuthentication",
    "wetbench_site.access_table.AccessTable",
    "wetbench_site.middleware.security.SignInRequired",
    "wetbench_site.middleware.two_factor.TwoFactorMiddleware",
    # These two read the body, so only after the checks above.
    "wetbench_site.middleware.body_first.BodyFirst",
    "django.middleware.csrf.CsrfViewMiddleware",
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


def build_database_settings() -> dict[str, Any]:
    """Return the database of DATABASE_URL, or SQLite under var/ if it is not set."""
    database: dict[str, Any] = dict(
        dj_database_url.parse(ENVIRONMENT.get_text("DATABASE_URL") or f"sqlite:///{VAR_DIR / 'wetbench.sqlite3'}")
    )
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["ENGINE"] = "wetbench_site.sqlite"
        # IMMEDIATE takes the write lock when a transaction begins: a read followed by a write waits instead of deadlocking.
        # FULL makes confirmed ratings survive a power cut. Each connection caches 16 MB of pages: with the default of 2 MB,
        # a count over 50,000 ratings takes three times as long.
        database["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000;",
        }
        # Each thread keeps its connection open: closing the last one copies the whole WAL into the file, which takes longer
        # than a rating.
        database["CONN_MAX_AGE"] = None
        database["TEST"] = {"NAME": None}
    else:
        # In milliseconds. A page that waits longer fails, so that it cannot block raters behind it.
        limits = "-c statement_timeout=15000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=30000"
        # Hundreds of threads share the ten connections of a process; none keeps one while it waits for a model.
        pool = {"min_size": 0, "max_size": 10, "timeout": 20, "max_idle": 60}
        # The backend checks pooled connections in a cheaper way.
        database |= {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
        if database["ENGINE"] == "django.db.backends.postgresql":
            database["ENGINE"] = "wetbench_site.postgresql"
        # A few statements run hundreds of times a second: preparing them saves a third of the server's time.
        prepared = {"server_side_binding": True, "prepare_threshold": 3}
        defaults = {"options": limits, "connect_timeout": 5, "pool": pool, **prepared}
        database["OPTIONS"] = defaults | database.get("OPTIONS", {})
    return database


DATABASES = {"default": build_database_settings()}
# Scratch database of blinding audits on PostgreSQL, if the role of DATABASE_URL may not create databases.
SCRATCH_DATABASE_URL = ENVIRONMENT.get_text("WETBENCH_SCRATCH_DATABASE_URL")
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR_DIR / "static"  # filled when the server starts (wetbench_site/middleware/static_files.py)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "wetbench_site.middleware.static_files.HashedFiles"},
}
WHITENOISE_USE_FINDERS = True  # until they are collected, and where they cannot be

# People sign in with their name or e-mail address; most raters have no password and use a link.
AUTHENTICATION_BACKENDS = ["ratings.accounts.signing_in.NameOrEmail"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("MinimumLengthValidator", {"min_length": 12}),
        ("CommonPasswordValidator", {}),
        ("UserAttributeSimilarityValidator", {}),
    )
] + [{"NAME": "ratings.accounts.signing_in.MaximumLengthValidator"}]
# The first one hashes new passwords. The others verify hashes of older versions, which are replaced at the next sign-in.
PASSWORD_HASHERS = [
    "ratings.accounts.signing_in.Argon2",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
# Eight wrong passwords for one account from one address lock that pair for a quarter of an hour.
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_HANDLER = "ratings.accounts.login_throttling.CeilingHandler"
# Ceilings on wrong passwords from all addresses for one account, and for all accounts from one address. A laboratory may share
# one address. The lock of an account is short, because anybody on the internet can cause it.
GUESSES_PER_ACCOUNT, ACCOUNT_LOCK_TIME = 50, timedelta(minutes=5)
GUESSES_PER_ADDRESS = 100
LINK_REQUESTS_PER_MINUTE = 5  # of sign-in links by e-mail, per address and web process
AXES_USERNAME_CALLABLE = "ratings.accounts.login_throttling.get_attempted_name"
AXES_CLIENT_IP_CALLABLE = "ratings.accounts.login_throttling.counted_address"
AXES_LOCKOUT_CALLABLE = "ratings.accounts.login_throttling.locked_out_response"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # else an attacker who keeps guessing locks the owner out
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # sign-ins are in the log of security events
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_SENSITIVE_PARAMETERS = [
    *("username", "code", "csrfmiddlewaretoken", "confirm_password"),
    *("old_password", "new_password1", "new_password2", "password1", "password2"),
]
# On a public site, people who may see the sources of items need two-factor authentication.
SECOND_STEP_REQUIRED = PRODUCTION
OTP_TOTP_ISSUER = "WetBench"
# Limits per person, against scripts that run out of control.
WRITES_PER_MINUTE = ENVIRONMENT.get_integer("WETBENCH_WRITES_PER_MINUTE")
EXPORTS_PER_HOUR = ENVIRONMENT.get_integer("WETBENCH_EXPORTS_PER_HOUR")
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_ENGINE = "ratings.accounts.sessions"
RATER_PROMPT_BUILDER = "ratings.raters.prompt_preview.build_rater_prompt"  # for `prompts render model-rater`
SESSION_COOKIE_AGE = 12 * 3600  # of inactivity; ratings/accounts/sessions.py has the maximum age
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENVIRONMENT.get_flag("WETBENCH_HTTPS")
# Browsers accept a __Host- cookie only over HTTPS and only from this host, not from others of its domain.
SESSION_COOKIE_NAME = f"{'__Host-' if SESSION_COOKIE_SECURE else ''}wb_session"
CSRF_COOKIE_NAME = f"{'__Host-' if SESSION_COOKIE_SECURE else ''}wb_csrf"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# In production everything uses HTTPS, and browsers remember that for a year. X-Forwarded-Proto is trusted only if
# WETBENCH_PROXIES names a proxy. Health checks come from inside, without HTTPS.
SECURE_SSL_REDIRECT = PRODUCTION and SESSION_COOKIE_SECURE
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if SECURE_SSL_REDIRECT else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PROXIES else None
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # only the owner of the domain can ask for HSTS preloading
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500
DATA_UPLOAD_MAX_NUMBER_FILES = 1
FILE_UPLOAD_HANDLERS = [
    "wetbench_site.middleware.uploads.UploadLimit",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

API_PER_MINUTE = ENVIRONMENT.get_integer("WETBENCH_API_PER_MINUTE")  # requests of one token to one web process

# E-mail is printed to the console until EMAIL_HOST is set.
SITE_URL = ENVIRONMENT.get_text("WETBENCH_URL")  # base of links in e-mails; unset: the address of the request
CSRF_TRUSTED_ORIGINS = [SITE_URL] if SITE_URL else []
EMAIL_HOST = ENVIRONMENT.get_text("EMAIL_HOST")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"
EMAIL_PORT = ENVIRONMENT.get_integer("EMAIL_PORT")
EMAIL_HOST_USER = ENVIRONMENT.get_text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = ENVIRONMENT.get_text("EMAIL_HOST_PASSWORD")
EMAIL_USE_SSL = ENVIRONMENT.get_flag("EMAIL_USE_SSL")
EMAIL_USE_TLS = ENVIRONMENT.get_flag("EMAIL_USE_TLS") and not EMAIL_USE_SSL
EMAIL_TIMEOUT = ENVIRONMENT.get_number("EMAIL_TIMEOUT")
DEFAULT_FROM_EMAIL = SERVER_EMAIL = ENVIRONMENT.get_text("EMAIL_FROM")

# Without a broker, `manage.py work` runs everything in its own threads, from the same rows.
CELERY_BROKER_URL = ENVIRONMENT.get_text("CELERY_BROKER_URL")
# The database is the source of truth: a lost message is sent again, a repeated one finds the row leased.
CELERY_TASK_ACKS_LATE = False
# Messages for units that need a sandbox have a queue of their own: a worker without one would take them and do nothing.
CELERY_TASK_DEFAULT_QUEUE, SANDBOX_QUEUE = "celery", "sandboxes"
CELERY_TASK_QUEUES: dict[str, dict[str, str]] = {
    name: {}
    for name, is_consumed in (
        (CELERY_TASK_DEFAULT_QUEUE, not ENVIRONMENT.get_flag("WETBENCH_SANDBOX_ONLY")),
        (SANDBOX_QUEUE, os.environ.get("WETBENCH_SANDBOX") != "off"),
    )
    if is_consumed
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Celery's time limits cannot interrupt threads: the deadline of our HTTP transport ends a call.
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

# Time intervals of workers, in seconds. WETBENCH_PACE scales all of them; tests use a twentieth.
PACE = ENVIRONMENT.get_number("WETBENCH_PACE")
LEASE_SECONDS = 60 * PACE
HEARTBEAT_SECONDS = 15 * PACE
POLL_SECONDS = 1 * PACE
RING_AGAIN_SECONDS = 15 * PACE
SWEEP_SECONDS = 15 * PACE
WORKER_SILENT_SECONDS = 90 * PACE
LOST_LEASES_ALLOWED = 3
JOB_FILE_DAYS = ENVIRONMENT.get_number("WETBENCH_JOB_FILE_DAYS")  # how long files of finished jobs are stored
TREE_DAYS = ENVIRONMENT.get_number("WETBENCH_TREE_DAYS")  # after which a workspace that no row names is removed
SANDBOX_ONLY = ENVIRONMENT.get_flag("WETBENCH_SANDBOX_ONLY")
TURN_SECONDS = 60 * PACE  # how long one task works on a row before other rows get their turn

# Calls of language models. WETBENCH_PACE does not scale their time limit: models are as slow in tests as elsewhere.
CALL_SECONDS = ENVIRONMENT.get_number("WETBENCH_CALL_SECONDS")
PROVIDER_CALLS_START = ENVIRONMENT.get_integer("WETBENCH_PROVIDER_START")
PROVIDER_CALLS_MAX = ENVIRONMENT.get_integer("WETBENCH_PROVIDER_CALLS")
GATE_LOWER_SECONDS = 15 * PACE
GATE_PAUSE_SECONDS, GATE_PAUSE_MAX_SECONDS = 1 * PACE, 120 * PACE
CIRCUIT_FAULTS = 5
CIRCUIT_PAUSE_SECONDS, CIRCUIT_PAUSE_MAX_SECONDS = 5 * PACE, 300 * PACE
SLOT_WAIT_SECONDS = 2 * PACE
RETRY_SECONDS, RETRY_MAX_SECONDS, RETRY_WINDOW_SECONDS = 2 * PACE, 120 * PACE, 1800 * PACE
RETRY_ATTEMPTS = 10
RETRY_AFTER_MAX_SECONDS = 600
PRICE_SECONDS = 60  # how long a process caches prices of models
TALLY_SECONDS = 60  # how long a process caches counts for study pages and /metrics; 0: no cache

# Every process, those of gunicorn and Celery included, logs in the same format to standard error.
REQUEST_LOG = ENVIRONMENT.get_flag("WETBENCH_REQUEST_LOG")
LOGGING = logs.build_logging_config(
    ENVIRONMENT.get_text("WETBENCH_LOG_FORMAT"),
    ENVIRONMENT.get_text("WETBENCH_LOG_LEVEL"),
    environment.list_secrets(os.environ) | {SECRET_KEY},
)
DEFAULT_EXCEPTION_REPORTER = "wetbench_site.observability.redaction.ReporterWithoutLocals"
