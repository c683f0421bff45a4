"""Types of environment variables: how each text is parsed, and a description of the allowed values."""

import logging
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import dj_database_url

Value = str | int | float | bool | list[str]


class Form(NamedTuple):
    """A type of values. `parse` raises ValueError for a text that is not `allowed`."""

    allowed: str
    read: Callable[[str], Value]


def _refuse(condition: bool) -> None:
    if condition:
        raise ValueError


def words(allowed: str) -> Form:
    """Return a type for any text; `allowed` describes the expected content."""
    return Form(allowed, lambda text: text)


def choice(*names: str) -> Form:
    def read(text: str) -> str:
        _refuse(text not in names)
        return text

    return Form(", ".join(names[:-1]) + " or " + names[-1], read)


def number(low: float = 0, high: float = 1e9) -> Form:
    """Return a type for numbers greater than `low`, up to `high`."""

    def read(text: str) -> float:
        _refuse(not low < float(text) <= high)
        return float(text)

    upper_bound = f" and at most {high:g}" if high < 1e9 else ""
    return Form(f"a number greater than {low:g}{upper_bound}", read)


def whole(low: int, high: int) -> Form:
    def read(text: str) -> int:
        # int() also accepts signs, underscores and digits of other scripts.
        _refuse(not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high)
        return int(text)

    return Form(f"a whole number from {low} to {high}", read)


def secret(fewest: int) -> Form:
    """Return a type for secrets: printable ASCII without blanks, `fewest` characters or more."""

    def read(text: str) -> str:
        _refuse(not re.fullmatch(rf"[\x21-\x7e]{{{fewest},}}", text))
        return text

    return Form(f"{fewest} characters or more, without blanks", read)


def _flag(text: str) -> bool:
    _refuse(text not in ("true", "false"))
    return text == "true"


def _hosts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    _refuse(not all(re.fullmatch(r"\*|\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:.]+\]", name) for name in names))
    return names


def _address(text: str) -> str:
    parts = urlsplit(text)
    _refuse(parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None)
    _refuse(bool(parts.query or parts.fragment) or bool(re.search(r"[^\x21-\x7e]", text)))
    _refuse(parts.port == 0)  # `port` raises ValueError if it is not a number up to 65535
    return text


def _site(text: str) -> str:
    _refuse(urlsplit(_address(text)).path not in ("", "/"))
    return text.rstrip("/")


def _database(text: str) -> str:
    scheme = urlsplit(text).scheme
    _refuse(scheme not in ("sqlite", "postgres", "postgresql"))
    _refuse(not dj_database_url.parse(text)["NAME"])
    return text


def _broker(text: str) -> str:
    parts = urlsplit(text)
    _refuse(parts.scheme not in ("redis", "rediss") or not parts.hostname)
    _refuse(parts.port == 0 or not re.fullmatch(r"/?[0-9]*", parts.path))
    return text


def _level(text: str) -> str:
    _refuse(text not in logging.getLevelNamesMapping())
    return text


def listed(text: str) -> list[str]:
    """Return the secrets of a text that separates them by commas or line breaks."""
    return [secret_text.strip() for secret_text in re.split(r"[,\n]", text)]


def _secrets(text: str) -> list[str]:
    return [str(secret(20).read(key)) for key in listed(text)]


FLAG = Form("true or false", _flag)
HOSTS = Form("host names without scheme or port, separated by commas", _hosts)
ADDRESS = Form("an address such as https://host/path", _address)
SITE = Form("an address such as https://wetbench.example.org, without a path", _site)
DATABASE = Form("postgres://user:password@host:port/name or sqlite:///path", _database)
BROKER = Form("redis://host:port/number or rediss://host:port/number", _broker)
LEVEL = Form("DEBUG, INFO, WARNING, ERROR or CRITICAL", _level)
SECRETS = Form("keys of 20 characters or more, separated by commas", _secrets)
