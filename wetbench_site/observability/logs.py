"""Lines of the log: as text for a person, or as JSON for a machine; time in UTC, redacted, with what was going on."""

import copy
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from wetbench_site.observability import log_context, request_facts
from wetbench_site.observability.redaction import Redactor

LINE = "%(asctime)s %(levelname)s %(name)s %(message)s"


class RedactedStream(logging.StreamHandler):  # type: ignore[type-arg]  # to standard error
    """The one handler, on the root logger: whatever passes it was cleaned, whoever logged it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self.redacted = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Of a copy, since others may read the record too."""
        clean = copy.copy(record)
        clean.msg, clean.args = self.redacted(record.getMessage()), ()
        clean.exc_info, clean.stack_info = None, None
        error = record.exc_info[1] if record.exc_info else None
        clean.exc_text = self.redacted.traceback(error) if error else None
        clean.facts = {name: self._told(value) for name, value in facts(record).items()}
        return super().format(clean)

    def _told(self, value: object) -> object:
        return value if isinstance(value, int | float | bool | None) else self.redacted(str(value))


def facts(record: logging.LogRecord) -> dict[str, Any]:
    """Whose request and which unit the line belongs to, and what its writer adds as `extra={"facts": ...}`."""
    added: Mapping[str, Any] = getattr(record, "facts", {})
    return {**request_facts.now(), **log_context.bound_facts(), **added}


class Line(logging.Formatter):
    """One line, with the facts behind it in brackets; a traceback under it."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(LINE)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        told = " ".join(f"{name}={value}" for name, value in getattr(record, "facts", {}).items())
        return super().formatMessage(record) + (f" [{told}]" if told else "")


class Json(JsonFormatter):
    """An object a line: time, level, logger, message, then the facts, and `exception` where there was one."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {"time": at, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        log_data |= {name: value for name, value in getattr(record, "facts", {}).items() if name not in log_data}
        if record.exc_text:
            log_data["exception"] = record.exc_text


def configuration(form: str, level: str, secrets: Iterable[str]) -> dict[str, Any]:
    """LOGGING for Django, gunicorn and Celery alike: everybody's lines go up to the root."""
    up: dict[str, Any] = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": Line}, "json": {"()": Json}},
        "handlers": {"console": {"()": RedactedStream, "secrets": sorted(secrets), "formatter": form}},
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            "wetbench": {**up, "level": level},
            "django": {**up, "level": "WARNING"},
            "django.request": {**up, "level": "ERROR"},
            "django.server": {**up, "level": "INFO"},
            "gunicorn.error": {**up, "level": "WARNING"},
            "gunicorn.access": {**up, "level": "WARNING"},
            "celery": {**up, "level": "WARNING"},
        },
    }
