"""Log lines: text for people or JSON for machines, with UTC times and the current request and unit, without secrets."""

import copy
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from pythonjsonlogger.json import JsonFormatter

from wetbench_site.client_address import get_client_address
from wetbench_site.observability import log_context
from wetbench_site.observability.log_context import AUDIT_REQUEST
from wetbench_site.observability.redaction import Redactor

log = logging.getLogger("wetbench.security")
LINE_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class RedactedHandler(logging.StreamHandler):  # type: ignore[type-arg]  # writes to standard error
    """The only handler, on the root logger, so every line is redacted, whichever library logged it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self.redact = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line without secrets."""
        # Other handlers may read the record too, so it is not changed.
        clean = copy.copy(record)
        clean.msg, clean.args = self.redact(record.getMessage()), ()
        clean.exc_info, clean.stack_info = None, None
        error = record.exc_info[1] if record.exc_info else None
        clean.exc_text = self.redact.format_traceback(error) if error else None
        clean.facts = {
            name: value if isinstance(value, int | float | None) else self.redact(str(value))
            for name, value in collect_facts(record).items()
        }
        return super().format(clean)


def collect_facts(record: logging.LogRecord) -> dict[str, Any]:
    """Return the request and the unit of the line, and what the caller adds as `extra={"facts": ...}`."""
    added: Mapping[str, Any] = getattr(record, "facts", {})
    return {**log_context.describe_current_request(), **log_context.bound_facts(), **added}


class LineFormatter(logging.Formatter):
    """One line with its facts in brackets; a traceback follows on the next lines."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(LINE_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        facts_text = " ".join(f"{name}={value}" for name, value in getattr(record, "facts", {}).items())
        return super().formatMessage(record) + (f" [{facts_text}]" if facts_text else "")


class JsonLineFormatter(JsonFormatter):
    """One JSON object a line: time, level, logger, message, the facts, and `exception` if there was one."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        time_text = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {
            "time": time_text,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        log_data |= {name: value for name, value in getattr(record, "facts", {}).items() if name not in log_data}
        if record.exc_text:
            log_data["exception"] = record.exc_text


def build_logging_config(formatter: str, level: str, secrets: Iterable[str]) -> dict[str, Any]:
    """Return LOGGING for Django, gunicorn and Celery: all loggers propagate to the root."""
    propagating: dict[str, Any] = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        # gunicorn and Celery create their loggers before this configuration is applied.
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": LineFormatter}, "json": {"()": JsonLineFormatter}},
        "handlers": {"console": {"()": RedactedHandler, "secrets": sorted(secrets), "formatter": formatter}},
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            "wetbench": {**propagating, "level": level},
            "django": {**propagating, "level": "WARNING"},
            "django.request": {**propagating, "level": "ERROR"},
            "django.server": {**propagating, "level": "INFO"},
            "gunicorn.error": {**propagating, "level": "WARNING"},
            "gunicorn.access": {**propagating, "level": "WARNING"},
            "celery": {**propagating, "level": "WARNING"},
        },
    }


def log_security_event(name: str, request: HttpRequest | None, /, **facts: str | int | bool | None) -> None:
    """Log the event. `name` is a fixed phrase such as "signed in"; facts are names and numbers, never secrets."""
    # A blinding audit signs in to its scratch copy only; that is no event of this site.
    if request is not None and AUDIT_REQUEST in request.META:
        return
    event_facts = {"event": name, **facts}
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        event_facts.setdefault("by", user.pk)
    if request is not None:
        event_facts.setdefault("address", get_client_address(request))
    log.info("%s", name, extra={"facts": event_facts})
