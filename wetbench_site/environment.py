"""Every variable of the environment that WetBench knows, declared once; docs/operations.md has the same table.

A secret NAME may stand in a file instead, which NAME_FILE names. What is unknown, malformed or missing stops the start:
`read` names all of it at once, with what is allowed.
"""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from django.core.exceptions import ImproperlyConfigured

from wetbench_site import values
from wetbench_site.values import Form, Value


class Unusable(ImproperlyConfigured):
    """The site does not start like this; the text names everything that is wrong, a line each."""


class Variable(NamedTuple):
    """`default` is read like a given value; `production` replaces it in that profile."""

    name: str
    form: Form
    default: str = ""
    production: str | None = None
    secret: bool = False
    required: bool = False  # in production


PREFIX = "WETBENCH_"  # nobody else's variables begin so
PROVIDERS = ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "LOCAL")

VARIABLES = (
    Variable("WETBENCH_PROFILE", values.choice("embedded", "production"), "embedded"),
    Variable("SECRET_KEY", values.secret(20), secret=True, required=True),
    Variable("WETBENCH_OLD_SECRET_KEYS", values.SECRETS, secret=True),
    Variable("DATABASE_URL", values.DATABASE, secret=True),
    Variable("WETBENCH_SCRATCH_DATABASE_URL", values.DATABASE, secret=True),
    Variable("CELERY_BROKER_URL", values.BROKER, secret=True),
    Variable("WETBENCH_HOSTS", values.HOSTS, "localhost,127.0.0.1,[::1]", required=True),
    Variable("WETBENCH_URL", values.SITE, required=True),
    Variable("WETBENCH_HTTPS", values.FLAG, "false", production="true"),
    Variable("WETBENCH_PROXIES", values.whole(0, 9), "0"),
    Variable("WETBENCH_WEB_WORKERS", values.whole(1, 16), "1", production="2"),
    Variable("WETBENCH_VAR_DIR", values.words("a folder")),
    Variable("WETBENCH_API_PER_MINUTE", values.whole(1, 10**6), "600"),
    Variable("WETBENCH_DISK_FREE_MB", values.whole(1, 10**9), "1024"),
    Variable("WETBENCH_METRICS_TOKEN", values.secret(20), secret=True),
    Variable("WETBENCH_LOG_FORMAT", values.choice("line", "json"), "line", production="json"),
    Variable("WETBENCH_LOG_LEVEL", values.LEVEL, "INFO"),
    Variable("WETBENCH_REQUEST_LOG", values.FLAG, "false", production="true"),
    Variable("WETBENCH_DEBUG", values.FLAG, "false"),
    Variable("WETBENCH_WRITES_PER_MINUTE", values.whole(1, 10**6), "60"),
    Variable("WETBENCH_EXPORTS_PER_HOUR", values.whole(1, 10**6), "5"),
    Variable("WETBENCH_PACE", values.number(), "1"),
    Variable("WETBENCH_JOB_FILE_DAYS", values.number(), "7"),
    *(Variable(f"{name}_API_KEY", values.words("the provider's key"), secret=True) for name in PROVIDERS),
    *(Variable(f"{name}_BASE_URL", values.ADDRESS) for name in PROVIDERS),
    Variable("WETBENCH_PROVIDER_CALLS", values.whole(1, 10**6), "64"),
    Variable("WETBENCH_PROVIDER_START", values.whole(1, 10**6), "20"),
    Variable("WETBENCH_CALL_SECONDS", values.number(), "300"),
    Variable("EMAIL_HOST", values.words("a host name")),
    Variable("EMAIL_PORT", values.whole(1, 65535), "587"),
    Variable("EMAIL_HOST_USER", values.words("a name")),
    Variable("EMAIL_HOST_PASSWORD", values.words("a password"), secret=True),
    Variable("EMAIL_USE_TLS", values.FLAG, "true"),
    Variable("EMAIL_USE_SSL", values.FLAG, "false"),
    Variable("EMAIL_TIMEOUT", values.number(), "20"),
    Variable("EMAIL_FROM", values.words("a sender"), "WetBench <wetbench@localhost>"),
)


class Environment(NamedTuple):
    """What was read. Every variable has a value: the given one or its default; an empty text where it has neither."""

    values: Mapping[str, Value]
    given: frozenset[str]

    @property
    def production(self) -> bool:
        return self.values["WETBENCH_PROFILE"] == "production"

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> float:
        return float(self.text(name))

    def whole(self, name: str) -> int:
        return int(self.text(name))

    def flag(self, name: str) -> bool:
        return self.values[name] is True

    def names(self, name: str) -> list[str]:
        found = self.values[name]
        return found if isinstance(found, list) else []


def read(environ: Mapping[str, str]) -> Environment:
    """The environment as values. Raises Unusable with everything that is wrong with it."""
    texts, problems = dict[str, str](), list(_unknown(environ))
    for variable in VARIABLES:
        try:
            texts[variable.name] = _text(variable, environ)
        except ValueError as error:
            problems.append(str(error))
    production = texts.get("WETBENCH_PROFILE") == "production"
    found = dict[str, Value]()
    for variable in VARIABLES:
        text = texts.get(variable.name, "")
        if not text and production and variable.required and variable.name in texts:
            problems.append(f"{variable.name} is not set; in production it must be {variable.form.allowed}")
        try:
            found[variable.name] = _value(variable, text, production)
        except ValueError:
            said = "" if variable.secret else f" is {text!r};"
            problems.append(f"{variable.name}{said} must be {variable.form.allowed}".replace("; must", "; it must"))
    if texts.get("EMAIL_USE_TLS") == texts.get("EMAIL_USE_SSL") == "true":
        problems.append("EMAIL_USE_TLS and EMAIL_USE_SSL are both true; set one of them")
    if problems:
        raise Unusable("The environment cannot be used.\n" + "\n".join(f"- {one}" for one in problems))
    return Environment(found, frozenset(name for name, text in texts.items() if text))


def secrets(environ: Mapping[str, str]) -> set[str]:
    """The value of every secret that is set, of several in one each; logs never show one."""
    texts = {variable: _text(variable, environ) for variable in VARIABLES if variable.secret}
    return {one for variable, text in texts.items() if text for one in _parts(variable, text)}


def _value(variable: Variable, text: str, production: bool) -> Value:
    default = variable.production if production and variable.production is not None else variable.default
    return variable.form.read(text or default) if text or default else ""


def _parts(variable: Variable, text: str) -> Iterator[str]:
    yield text
    if variable.form is values.SECRETS:
        yield from values.listed(text)


def _text(variable: Variable, environ: Mapping[str, str]) -> str:
    """What is given, from the variable or its file. An empty one counts as none."""
    name, text = variable.name, environ.get(variable.name, "")
    file = environ.get(f"{name}_FILE", "") if variable.secret else ""
    if text and file:
        raise ValueError(f"{name} and {name}_FILE are both set; give one of them")
    if not file:
        return text
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ValueError(f"{name}_FILE names {file}, which cannot be read: {why}") from error


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    """Names that begin as ours do and are not: a typing error would otherwise be a setting that nobody made."""
    known = {variable.name for variable in VARIABLES}
    known |= {f"{variable.name}_FILE" for variable in VARIABLES if variable.secret}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            ours = [other.removeprefix(PREFIX) for other in known if other.startswith(PREFIX)]
            near = difflib.get_close_matches(name.removeprefix(PREFIX), ours, 1)
            meant = f"did you mean {PREFIX}{near[0]}?" if near else "docs/operations.md lists those there are"
            yield f"{name} is no variable of WetBench; {meant}"
