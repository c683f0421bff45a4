"""What is told of a fault: no local variable, since clients of providers carry their keys in theirs."""

from typing import Any

from django.views.debug import ExceptionReporter


class WithoutLocals(ExceptionReporter):
    """Frames and lines of code alone, on Django's debug page as well."""

    def get_traceback_frames(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = super().get_traceback_frames()
        return [{**frame, "vars": []} for frame in frames]
