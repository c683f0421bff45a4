"""Types of environment variables: how each text is parsed, and a description of the allowed values."""

import logging
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import dj_database_url

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
    _reject_if(
        not all(re.fullmatch(r"\*|\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\]", name) for name in names)
    )
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
