"""Error reports without local variables, because those of provider clients contain API keys."""

from typing import Any

from django.views.debug import ExceptionReporter


class ReporterWithoutLocals(ExceptionReporter):
    """Report frames and lines of code only, also on Django's debug page."""

    def get_traceback_frames(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = super().get_traceback_frames()
        return [{**frame, "vars": []} for frame in frames]
