"""Validate one model or price of a data file. A problem has the form "field: what is wrong and what is allowed"."""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from simulation.lab import validation
from simulation.providers import options
from simulation.providers.base import PROVIDERS, WireOptions

# Lower case only, so that two names never differ by case alone.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
TOKEN_CLASSES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
LIFECYCLES = ("active", "retiring", "retired", "unknown")
MAX_COUNT = 10**9  # tokens
_MAX_PRICE = Decimal(10**5)  # dollars per million tokens
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
    problems = validation.find_unknown_fields(data, _MODEL_FIELDS) + check_name(data)
    if data.get("provider") not in tuple(PROVIDERS):
        problems.append(format_problem("provider", data.get("provider"), ", ".join(PROVIDERS)))
    problems += check_text(data, "model_id", 120) + check_text(data, "note", 10_000, empty=True)
    problems += check_words(data.get("aliases", []), "aliases")
    options = data.get("options", {})
    if isinstance(options, Mapping):
        problems += [f"options.{problem}" for problem in _check_options(options)]
        # Anthropic requires a version in every request, and a default here could change what old runs meant.
        if data.get("provider") == "anthropic" and not options.get("api_version"):
            version = format_problem(
                "api_version", options.get("api_version"), "a day like 2023-06-01, because Anthropic's API has versions"
            )
            problems.append(f"options.{version}")
    else:
        problems.append(format_problem("options", options, "an object"))
    problems += check_count(data, "context_limit")
    prices = data.get("prices", [])
    if not isinstance(prices, list):
        return [*problems, format_problem("prices", prices, "a list of prices")]
    problems += validation.check_each("prices", prices, check_price) + validation.find_duplicates(
        "prices", "effective_from", prices
    )
    return problems + _check_lifecycle(data)


def check_price(data: Mapping[str, Any]) -> list[str]:
    """Return every problem of one price: dollars per million tokens of each class, as text; null if unknown."""
    problems = validation.find_unknown_fields(data, _PRICE_FIELDS) + check_text(data, "source", 300)
    problems += check_day(data, "effective_from") + check_day(data, "read_on")
    problems += [
        format_problem(key, data[key], 'dollars per million tokens in quotes, like "1.25", or null')
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
            format_problem(
                "name", name, "a to z, 0 to 9, dot, hyphen, underscore; at most 80, starting with a letter or digit"
            )
        ]
    )


def format_problem(field: str, value: Any, allowed: str) -> str:
    value_text = repr(value)
    return f"{field}: is {value_text if len(value_text) <= 80 else value_text[:77] + '...'}; allowed: {allowed}"


def check_text(data: Mapping[str, Any], key: str, longest: int, empty: bool = False) -> list[str]:
    value = data.get(key, "" if empty else None)
    is_valid = isinstance(value, str) and len(value) <= longest and (empty or bool(value.strip()))
    return (
        []
        if is_valid
        else [format_problem(key, value, f"text of at most {longest} characters{'' if empty else ', not empty'}")]
    )


def check_words(value: Any, key: str) -> list[str]:
    is_valid = isinstance(value, list) and all(isinstance(word, str) and 0 < len(word) <= 120 for word in value)
    return [] if is_valid else [format_problem(key, value, "a list of texts")]


def check_day(data: Mapping[str, Any], key: str, empty: bool = False) -> list[str]:
    value = data.get(key)
    if (empty and value is None) or (isinstance(value, str) and _is_iso_date(value)):
        return []
    return [format_problem(key, value, f"a day like 2026-11-21{', or null' if empty else ''}")]


def check_count(
    data: Mapping[str, Any], key: str, least: int = 1, most: int = MAX_COUNT, empty: bool = True
) -> list[str]:
    value = data.get(key)
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if (empty and value is None) or (is_integer and least <= value <= most):  # type: ignore[operator]  # is_integer implies int
        return []
    return [format_problem(key, value, f"a whole number from {least} to {most}{', or null' if empty else ''}")]


def _check_options(data: Mapping[str, Any]) -> list[str]:
    problems = validation.find_unknown_fields(data, {field.name for field in fields(WireOptions)})
    problems += [
        format_problem(key, data[key], ", ".join(allowed))
        for key, allowed in _CHOICES.items()
        if key in data and data[key] not in allowed
    ]
    problems += [
        format_problem(key, data[key], "true or false") for key in _FLAGS if not isinstance(data.get(key, True), bool)
    ]
    problems += check_words(data.get("effort_levels", []), "effort_levels") + check_text(
        data, "api_version", 40, empty=True
    )
    problems += check_count(data, "output_limit")
    extra = data.get("extra_body", {})
    if not isinstance(extra, Mapping):
        return [*problems, format_problem("extra_body", extra, "an object")]
    # Fields that a cast sets must not be overwritten, or the stored configuration would be untrue.
    ours = sorted(options.RESERVED_FIELDS & set(extra))
    return problems + ([f"extra_body: must not contain {', '.join(ours)}: a cast sets these"] if ours else [])


def _check_lifecycle(data: Mapping[str, Any]) -> list[str]:
    """Check that a lifecycle names its source and the day on which the source was read."""
    lifecycle = data.get("lifecycle", "unknown")
    if lifecycle not in LIFECYCLES:
        return [format_problem("lifecycle", lifecycle, ", ".join(LIFECYCLES))]
    is_known = lifecycle != "unknown"
    problems = check_text(data, "lifecycle_source", 300, empty=not is_known)
    problems += check_day(data, "lifecycle_read_on", empty=not is_known)
    return problems + check_day(data, "retires_on", empty=lifecycle != "retiring")


def _is_iso_date(written: str) -> bool:
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
    return isinstance(exponent, int) and -6 <= exponent <= 0 and 0 <= value <= _MAX_PRICE
