"""The status of a twin as text for people."""

from typing import NamedTuple

from simulation.models import Twin
from simulation.runs import failure_reasons
from simulation.web.episode_status import describe_wait

_TONES = {
    "running": "info",
    "waiting": "info",
    "done": "ok",
    "unusable": "warn",
    "failed": "danger",
    "blocked": "danger",
}
_LABELS = {"cancelled": "stopped"}


class TwinRow(NamedTuple):
    """One row of a list of twins. `tone` is the kind of its pill in site.css."""

    twin: Twin
    label: str
    tone: str
    detail: str
    cause: str
    help: str
    may_retry: bool
    to_vet: bool


def make_twin_row(twin: Twin) -> TwinRow:
    """Return the row, without a query."""
    return TwinRow(
        twin=twin,
        label=_LABELS.get(twin.status, twin.status),
        tone=_TONES.get(twin.status, ""),
        detail=_describe_detail(twin),
        cause=failure_reasons.find_cause(twin.status, twin.reason),
        help=failure_reasons.describe_remedy(twin.status, twin.reason),
        may_retry=twin.status in Twin.RETRYABLE,
        to_vet=awaits_vetting(twin),
    )


def is_made_by_model(twin: Twin) -> bool:
    """Return whether a model planted the error. Its own description is unverified, whereas a rule defines its error."""
    # A rule defines its error; a model's own description has to be vetted.
    return twin.status == "done" and twin.perturbation != "none" and not twin.rule


def awaits_vetting(twin: Twin) -> bool:
    """Return whether a model planted the error and no person has vetted the twin, even if it was accepted unread."""
    return is_made_by_model(twin) and twin.vetted_at is None


def _describe_detail(twin: Twin) -> str:
    if twin.status == "waiting":
        return describe_wait(twin)
    return twin.error or failure_reasons.describe_reason(twin.status, twin.reason)
