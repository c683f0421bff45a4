"""The status of a twin as text for people."""

from typing import NamedTuple

from simulation.models import Twin
from simulation.runs import causes
from simulation.web.standing import again

_TONES = {
    "running": "info",
    "waiting": "info",
    "done": "ok",
    "unusable": "warn",
    "failed": "danger",
    "blocked": "danger",
}
_LABELS = {"cancelled": "stopped"}


class TwinLine(NamedTuple):
    """One row of a list of twins. `tone` is the kind of its pill in site.css."""

    twin: Twin
    label: str
    tone: str
    detail: str
    cause: str
    help: str
    may_retry: bool
    to_vet: bool


def twin_line(twin: Twin) -> TwinLine:
    """Return the row, without a query."""
    return TwinLine(
        twin=twin,
        label=_LABELS.get(twin.status, twin.status),
        tone=_TONES.get(twin.status, ""),
        detail=_detail(twin),
        cause=causes.cause(twin.status, twin.reason),
        help=causes.help(twin.status, twin.reason),
        may_retry=twin.status in Twin.RETRYABLE,
        to_vet=awaits_vetting(twin),
    )


def made_by_model(twin: Twin) -> bool:
    """Return whether a model planted the error. Its own description is unverified, whereas a rule defines its error."""
    return twin.status == "done" and twin.perturbation != "none" and not twin.rule


def awaits_vetting(twin: Twin) -> bool:
    """Return whether no person has vetted it, even if it was accepted automatically."""
    return made_by_model(twin) and twin.vetted_at is None


def _detail(twin: Twin) -> str:
    if twin.status == "waiting":
        return again(twin)
    return twin.error or causes.words(twin.status, twin.reason)
