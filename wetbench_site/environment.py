"""Every environment variable that WetBench uses, declared once; docs/operations.md has the same table.

A secret NAME can also be stored in a file that NAME_FILE names. Unknown, malformed and missing variables stop the start:
`load_environment` reports all of them at once, with the allowed values.
"""

import difflib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

_HOST = re.compile(r"\*|\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\]")
Value = str | int | float | bool | list[str]


class ValueType(NamedTuple):
    """A type of values. `parse` raises ValueError for a text that is not `allowed`."""

    allowed: str
    parse: Callable[[str], Value]


def _reject_if(condition: bool) -> None:
    if condition:
        raise ValueError


def text_type(allowed: str) -> ValueType:
    """Return a type for any text; `allowed` describes the expected content."""
    return ValueType(allowed, lambda text: text)


def choice_type(*names: str) -> ValueType:
    def parse_choice(text: str) -> str:
        _reject_if(text not in names)
        return text

    return ValueType(", ".join(names[:-1]) + " or " + names[-1], parse_choice)


def number_type(low: float = 0, high: float = 1e9) -> ValueType:
    """Return a type for numbers greater than `low`, up to `high`."""

    def parse_number(text: str) -> float:
        _reject_if(not low < float(text) <= high)
        return float(text)

    upper_bound = f" and at most {high:g}" if high < 1e9 else ""
    return ValueType(f"a number greater than {low:g}{upper_bound}", parse_number)


def integer_type(low: int, high: int) -> ValueType:
    def parse_integer(text: str) -> int:
        # int() also accepts signs, underscores and digits of other scripts.
        _reject_if(not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high)
        return int(text)

    return ValueType(f"a whole number from {low} to {high}", parse_integer)


def secret_type(min_length: int) -> ValueType:
    """Return a type for secrets: printable ASCII without blanks, `min_length` characters or more."""

    def parse_secret(text: str) -> str:
        _reject_if(not re.fullmatch(rf"[\x21-\x7e]{{{min_length},}}", text))
        return text

    return ValueType(f"{min_length} characters or more, without blanks", parse_secret)


def _parse_flag(text: str) -> bool:
    _reject_if(text not in ("true", "false"))
    return text == "true"


def _parse_hosts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    _reject_if(not all(map(_HOST.fullmatch, names)))
    return names


def _parse_url(text: str) -> str:
    parts = urlsplit(text)
    _reject_if(parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None)
    _reject_if(bool(parts.query or parts.fragment) or bool(re.search(r"[^\x21-\x7e]", text)))
    _reject_if(parts.port == 0)  # `port` raises ValueError if it is not a number up to 65535
    return text


def _parse_site_url(text: str) -> str:
    _reject_if(urlsplit(_parse_url(text)).path not in ("", "/"))
    return text.rstrip("/")


def _parse_database_url(text: str) -> str:
    scheme = urlsplit(text).scheme
    _reject_if(scheme not in ("sqlite", "postgres", "postgresql"))
    _reject_if(not dj_database_url.parse(text)["NAME"])
    return text


def _parse_broker_url(text: str) -> str:
    parts = urlsplit(text)
    _reject_if(parts.scheme not in ("redis", "rediss") or not parts.hostname)
    _reject_if(parts.port == 0 or not re.fullmatch(r"/?[0-9]*", parts.path))
    return text


def _parse_log_level(text: str) -> str:
    _reject_if(text not in logging.getLevelNamesMapping())
    return text


def split_secrets(text: str) -> list[str]:
    """Return the secrets of a text that separates them by commas or line breaks."""
    return [secret_text.strip() for secret_text in re.split(r"[,\n]", text)]


def _parse_secrets(text: str) -> list[str]:
    return [str(secret_type(20).parse(key)) for key in split_secrets(text)]


FLAG = ValueType("true or false", _parse_flag)
HOSTS = ValueType("host names without scheme or port, separated by commas", _parse_hosts)
ADDRESS = ValueType("an address such as https://host/path", _parse_url)
SITE = ValueType("an address such as https://wetbench.example.org, without a path", _parse_site_url)
DATABASE = ValueType("postgres://user:password@host:port/name or sqlite:///path", _parse_database_url)
BROKER = ValueType("redis://host:port/number or rediss://host:port/number", _parse_broker_url)
LEVEL = ValueType("DEBUG, INFO, WARNING, ERROR or CRITICAL", _parse_log_level)
SECRETS = ValueType("keys of 20 characters or more, separated by commas", _parse_secrets)


class InvalidConfiguration(ImproperlyConfigured):
    """The site cannot start with this configuration. The message lists every problem, one a line."""


class Variable(NamedTuple):
    """One environment variable. `default` is parsed like a set value; `production` replaces it in the production profile."""

    name: str
    value_type: ValueType
    default: str = ""
    production: str | None = None
    secret: bool = False
    required: bool = False  # in production


PREFIX = "WETBENCH_"  # only variables of WetBench start with it, so an unknown one is a typing error
PROVIDERS = ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "LOCAL")

VARIABLES = (
    Variable("WETBENCH_PROFILE", choice_type("embedded", "production"), "embedded"),
    Variable("SECRET_KEY", secret_type(20), secret=True, required=True),
    Variable("WETBENCH_OLD_SECRET_KEYS", SECRETS, secret=True),
    Variable("DATABASE_URL", DATABASE, secret=True),
    Variable("WETBENCH_SCRATCH_DATABASE_URL", DATABASE, secret=True),
    Variable("CELERY_BROKER_URL", BROKER, secret=True),
    Variable("WETBENCH_HOSTS", HOSTS, "localhost,127.0.0.1,[::1]", required=True),
    Variable("WETBENCH_URL", SITE, required=True),
    Variable("WETBENCH_HTTPS", FLAG, "false", production="true"),
    Variable("WETBENCH_PROXIES", integer_type(0, 9), "0"),
    Variable("WETBENCH_WEB_WORKERS", integer_type(1, 16), "1", production="2"),
    Variable("WETBENCH_REQUEST_SECONDS", number_type(), "20"),
    Variable("WETBENCH_VAR_DIR", text_type("a folder")),
    Variable("WETBENCH_API_PER_MINUTE", integer_type(1, 10**6), "600"),
    Variable("WETBENCH_DISK_FREE_MB", integer_type(1, 10**9), "1024"),
    Variable("WETBENCH_METRICS_TOKEN", secret_type(20), secret=True),
    Variable("WETBENCH_LOG_FORMAT", choice_type("line", "json"), "line", production="json"),
    Variable("WETBENCH_LOG_LEVEL", LEVEL, "INFO"),
    Variable("WETBENCH_REQUEST_LOG", FLAG, "false", production="true"),
    Variable("WETBENCH_DEBUG", FLAG, "false"),
    Variable("WETBENCH_WRITES_PER_MINUTE", integer_type(1, 10**6), "60"),
    Variable("WETBENCH_EXPORTS_PER_HOUR", integer_type(1, 10**6), "5"),
    Variable("WETBENCH_PACE", number_type(), "1"),
    Variable("WETBENCH_JOB_FILE_DAYS", number_type(), "7"),
    Variable("WETBENCH_TREE_DAYS", number_type(low=2), "30"),
    Variable("WETBENCH_SANDBOX_ONLY", FLAG, "false"),
    *(Variable(f"{name}_API_KEY", text_type("the provider's key"), secret=True) for name in PROVIDERS),
    *(Variable(f"{name}_BASE_URL", ADDRESS) for name in PROVIDERS),
    Variable("WETBENCH_PROVIDER_CALLS", integer_type(1, 10**6), "64"),
    Variable("WETBENCH_PROVIDER_START", integer_type(1, 10**6), "20"),
    Variable("WETBENCH_CALL_SECONDS", number_type(), "300"),
    Variable("WETBENCH_SANDBOX", choice_type("auto", "bubblewrap", "docker", "podman", "off"), "auto"),
    Variable("WETBENCH_BWRAP", text_type("a program"), "bwrap"),
    Variable("WETBENCH_SANDBOXES", integer_type(1, 64)),
    Variable("WETBENCH_SANDBOX_SECONDS", integer_type(1, 86400), "1800"),
    Variable("WETBENCH_SANDBOX_MEMORY_MB", integer_type(64, 10**6), "1536"),
    Variable("WETBENCH_SANDBOX_CGROUP", text_type("a folder")),
    Variable("WETBENCH_SANDBOX_IMAGE", text_type("the name of an image")),
    Variable("EMAIL_HOST", text_type("a host name")),
    Variable("EMAIL_PORT", integer_type(1, 65535), "587"),
    Variable("EMAIL_HOST_USER", text_type("a name")),
    Variable("EMAIL_HOST_PASSWORD", text_type("a password"), secret=True),
    Variable("EMAIL_USE_TLS", FLAG, "true"),
    Variable("EMAIL_USE_SSL", FLAG, "false"),
    Variable("EMAIL_TIMEOUT", number_type(), "20"),
    Variable("EMAIL_FROM", text_type("a sender"), "WetBench <wetbench@localhost>"),
)


class Environment(NamedTuple):
    """The parsed variables. Each has its set value or its default, or an empty text if it has neither."""

    values: Mapping[str, Value]

    @property
    def is_production(self) -> bool:
        return self.values["WETBENCH_PROFILE"] == "production"

    def get_text(self, name: str) -> str:
        return str(self.values[name])

    def get_number(self, name: str) -> float:
        return float(self.get_text(name))

    def get_integer(self, name: str) -> int:
        return int(self.get_text(name))

    def get_flag(self, name: str) -> bool:
        return self.values[name] is True

    def get_list(self, name: str) -> list[str]:
        value = self.values[name]
        return value if isinstance(value, list) else []


def _find_sandbox_worker_problems(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield what a worker that runs only code of agents must not have: no sandbox, or keys that such code could steal."""
    if texts.get("WETBENCH_SANDBOX") == "off":
        yield "WETBENCH_SANDBOX_ONLY is true and WETBENCH_SANDBOX is off; this worker would do nothing"
    for name in (f"{provider}_API_KEY" for provider in PROVIDERS):
        if texts.get(name):
            yield f"{name} is set and WETBENCH_SANDBOX_ONLY is true; unset the key: this worker calls no models"


def load_environment(environ: Mapping[str, str]) -> Environment:
    """Return the parsed environment. Raises InvalidConfiguration with everything that is wrong with it."""
    texts, problems = dict[str, str](), list(_find_unknown_names(environ))
    for variable in VARIABLES:
        try:
            texts[variable.name] = _read_variable(variable, environ)
        except ValueError as error:
            problems.append(str(error))
    # Needed before the loop: the profile decides the defaults of other variables and which are required.
    production = texts.get("WETBENCH_PROFILE") == "production"
    parsed = dict[str, Value]()
    for variable in VARIABLES:
        text = texts.get(variable.name, "")
        # A variable that is missing from `texts` had a problem already; one message is enough.
        if not text and production and variable.required and variable.name in texts:
            problems.append(f"{variable.name} is not set; in production it must be {variable.value_type.allowed}")
        try:
            default = variable.production if production and variable.production is not None else variable.default
            parsed[variable.name] = variable.value_type.parse(text or default) if text or default else ""
        except ValueError:
            subject = variable.name if variable.secret else f"{variable.name} is {text!r}; it"
            problems.append(f"{subject} must be {variable.value_type.allowed}")
    if texts.get("EMAIL_USE_TLS") == texts.get("EMAIL_USE_SSL") == "true":
        problems.append("EMAIL_USE_TLS and EMAIL_USE_SSL are both true; set one of them")
    if texts.get("WETBENCH_SANDBOX_ONLY") == "true":
        problems += _find_sandbox_worker_problems(texts)
    if problems:
        lines = "\n".join(f"- {problem}" for problem in problems)
        raise InvalidConfiguration(f"The environment variables are not valid.\n{lines}")
    return Environment(parsed)


def list_secrets(environ: Mapping[str, str]) -> set[str]:
    """Return every secret that is set, so that logs can hide them. Include each key of a variable with several."""
    texts = {variable: _read_variable(variable, environ) for variable in VARIABLES if variable.secret}
    single = {key for variable, text in texts.items() if variable.value_type is SECRETS for key in split_secrets(text)}
    return (single | set(texts.values())) - {""}


def _read_variable(variable: Variable, environ: Mapping[str, str]) -> str:
    """Return the text of the variable or of its file. An empty variable counts as not set."""
    name, text = variable.name, environ.get(variable.name, "")
    file = environ.get(f"{name}_FILE", "") if variable.secret else ""
    if text and file:
        raise ValueError(f"{name} and {name}_FILE are both set; set only one of them")
    if not file:
        return text
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ValueError(f"{name}_FILE names {file}, which cannot be read: {reason}") from error


def _find_unknown_names(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem for each unknown name with our prefix: a typing error would otherwise be ignored silently."""
    known = {variable.name for variable in VARIABLES}
    known |= {f"{variable.name}_FILE" for variable in VARIABLES if variable.secret}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            ours = [other.removeprefix(PREFIX) for other in known if other.startswith(PREFIX)]
            matches = difflib.get_close_matches(name.removeprefix(PREFIX), ours, 1)
            advice = f"did you mean {PREFIX}{matches[0]}?" if matches else "docs/operations.md lists all variables"
            yield f"{name} is not a variable of WetBench; {advice}"
