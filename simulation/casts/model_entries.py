"""Validate one model or price of a data file. Problems read "field: what is wrong and what is allowed"."""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.lab import entries
from simulation.providers import options
from simulation.providers.base import PROVIDERS, WireOptions

# Lower case only, so that two names never differ by case alone.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
TOKEN_CLASSES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
LIFECYCLES = ("active", "retiring", "retired", "unknown")
LARGEST_COUNT = 10**9  # tokens
_LARGEST_PRICE = Decimal(10**5)  # dollars per million tokens
_MODEL_FIELDS = {
    "name", "provider", "model_id", "aliases", "options", "context_limit", "lifecycle", "retires_on",
    "lifecycle_source", "lifecycle_read_on", "note", "prices",
}  # fmt: skip
_PRICE_FIELDS = {"effective_from", "source", "read_on", *TOKEN_CLASSES}
_CHOICES = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "thinking": ("none", "budget", "adaptive", "effort", "always"),
    "caching": ("breakpoint", "automatic", "none"),
}
_FLAGS = ("temperature", "temperature_with_thinking", "json_mode")


def check_model(data: Mapping[str, Any]) -> list[str]:
    """Return every problem of one model with its prices."""
    problems = entries.unknown(data, _MODEL_FIELDS) + check_name(data)
    if data.get("provider") not in tuple(PROVIDERS):
        problems.append(wrong("provider", data.get("provider"), ", ".join(PROVIDERS)))
    problems += text(data, "model_id", 120) + text(data, "note", 10_000, empty=True)
    problems += words(data.get("aliases", []), "aliases")
    options = data.get("options", {})
    if isinstance(options, Mapping):
        problems += [f"options.{problem}" for problem in _check_options(options)]
        # Anthropic requires a version in every request, and a default here could change what old runs meant.
        if data.get("provider") == "anthropic" and not options.get("api_version"):
            version = wrong(
                "api_version", options.get("api_version"), "a day like 2023-06-01, because Anthropic's API has versions"
            )
            problems.append(f"options.{version}")
    else:
        problems.append(wrong("options", options, "an object"))
    problems += count(data, "context_limit")
    prices = data.get("prices", [])
    if not isinstance(prices, list):
        return [*problems, wrong("prices", prices, "a list of prices")]
    problems += entries.each("prices", prices, check_price) + entries.twice("prices", "effective_from", prices)
    return problems + _check_lifecycle(data)


def check_price(data: Mapping[str, Any]) -> list[str]:
    """Return every problem of one price: dollars per million tokens of each class, as text; null if unknown."""
    problems = entries.unknown(data, _PRICE_FIELDS) + text(data, "source", 300)
    problems += day(data, "effective_from") + day(data, "read_on")
    problems += [
        wrong(key, data[key], 'dollars per million tokens in quotes, like "1.25", or null')
        for key in TOKEN_CLASSES
        if data.get(key) is not None and not _is_price(data[key])
    ]
    # An entry without any price is a mistake; an unknown price is a missing entry.
    if all(data.get(key) is None for key in TOKEN_CLASSES):
        problems.append(f"input: no price is given; allowed: at least one of {', '.join(TOKEN_CLASSES)}")
    return problems


def check_name(data: Mapping[str, Any]) -> list[str]:
    name = data.get("name")
    is_valid = isinstance(name, str) and NAME.fullmatch(name)
    return (
        []
        if is_valid
        else [
            wrong("name", name, "a to z, 0 to 9, dot, hyphen, underscore; at most 80, starting with a letter or digit")
        ]
    )


def wrong(field: str, value: Any, allowed: str) -> str:
    value_text = repr(value)
    return f"{field}: is {value_text if len(value_text) <= 80 else value_text[:77] + '...'}; allowed: {allowed}"


def text(data: Mapping[str, Any], key: str, longest: int, empty: bool = False) -> list[str]:
    value = data.get(key, "" if empty else None)
    is_valid = isinstance(value, str) and len(value) <= longest and (empty or bool(value.strip()))
    return (
        [] if is_valid else [wrong(key, value, f"text of at most {longest} characters{'' if empty else ', not empty'}")]
    )


def words(value: Any, key: str) -> list[str]:
    is_valid = isinstance(value, list) and all(isinstance(word, str) and 0 < len(word) <= 120 for word in value)
    return [] if is_valid else [wrong(key, value, "a list of texts")]


def day(data: Mapping[str, Any], key: str, empty: bool = False) -> list[str]:
    value = data.get(key)
    if (empty and value is None) or (isinstance(value, str) and _is_day(value)):
        return []
    return [wrong(key, value, f"a day like 2026-11-21{', or null' if empty else ''}")]


def count(
    data: Mapping[str, Any], key: str, least: int = 1, most: int = LARGEST_COUNT, empty: bool = True
) -> list[str]:
    value = data.get(key)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if (empty and value is None) or (is_integer and least <= value <= most):  # type: ignore[operator]  # is_integer implies int
        return []
    return [wrong(key, value, f"a whole number from {least} to {most}{', or null' if empty else ''}")]


def _check_options(data: Mapping[str, Any]) -> list[str]:
    problems = entries.unknown(data, {field.name for field in fields(WireOptions)})
    problems += [
        wrong(key, data[key], ", ".join(allowed))
        for key, allowed in _CHOICES.items()
        if key in data and data[key] not in allowed
    ]
    problems += [wrong(key, data[key], "true or false") for key in _FLAGS if not isinstance(data.get(key, True), bool)]
    problems += words(data.get("effort_levels", []), "effort_levels") + text(data, "api_version", 40, empty=True)
    problems += count(data, "output_limit")
    extra = data.get("extra_body", {})
    if not isinstance(extra, Mapping):
        return [*problems, wrong("extra_body", extra, "an object")]
    # Fields that a cast sets must not be overwritten, or the stored configuration would be untrue.
    ours = sorted(options.OURS & set(extra))
    return problems + ([f"extra_body: must not contain {', '.join(ours)}: a cast sets these"] if ours else [])


def _check_lifecycle(data: Mapping[str, Any]) -> list[str]:
    """Check that a lifecycle names its source and the day it was read."""
    lifecycle = data.get("lifecycle", "unknown")
    if lifecycle not in LIFECYCLES:
        return [wrong("lifecycle", lifecycle, ", ".join(LIFECYCLES))]
    is_known = lifecycle != "unknown"
    problems = text(data, "lifecycle_source", 300, empty=not is_known)
    problems += day(data, "lifecycle_read_on", empty=not is_known)
    return problems + day(data, "retires_on", empty=lifecycle != "retiring")


def _is_day(written: str) -> bool:
    try:
        # Compared again, because other spellings of a day are accepted by the parser.
        return date.fromisoformat(written).isoformat() == written
    except ValueError:
        return False


def _is_price(written: Any) -> bool:
    try:
        value = Decimal(written) if isinstance(written, str) else Decimal("NaN")
    except InvalidOperation:
        return False
    # The database stores six places; the exponent of NaN and infinity is a letter.
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and -6 <= exponent <= 0 and 0 <= value <= _LARGEST_PRICE
