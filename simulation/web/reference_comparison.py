"""An ended attempt of a person beside the reference protocol of its experiment, which is public."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from simulation.lab.actions import QUIT, SUBMIT
from simulation.models import Episode
from simulation.runs import benches

REFERENCE_CAST = "offline"  # its agent follows the reference protocol


class ActionLine(NamedTuple):
    """How often the reference protocol has an action, and how often the attempt."""

    action: str
    expected: int
    own: int


class ReferenceComparison(NamedTuple):
    """The actions of both; `attempt` is an episode that follows the reference protocol, if there is one."""

    lines: list[ActionLine]
    attempt: Episode | None

    @property
    def expected(self) -> int:
        return sum(line.expected for line in self.lines)

    @property
    def own(self) -> int:
        return sum(line.own for line in self.lines)

    @property
    def missing(self) -> list[str]:
        return [line.action for line in self.lines if not line.own]


def compare_with_reference(episode: Episode, accepted: Iterable[str]) -> ReferenceComparison | None:
    """Return the comparison of the attempt's accepted actions, or None if the experiment has no reference protocol."""
    protocol = benches.get_specification(episode.experiment).protocol
    expected = _count_actions(step["action"] for step in protocol)
    if not expected:
        return None
    own = _count_actions(accepted)
    # The actions of the reference in its order, then those that only the attempt has.
    lines = [ActionLine(name, expected[name], own[name]) for name in dict.fromkeys((*expected, *own))]
    others = Episode.objects.filter(
        experiment=episode.experiment, cast=REFERENCE_CAST, status="submitted", counts=True, mask_key=""
    )
    return ReferenceComparison(lines, others.only("code").order_by("-pk").first())


def _count_actions(names: Iterable[str]) -> Counter[str]:
    # How an episode ends is no part of the work.
    return Counter(name for name in names if name not in (SUBMIT, QUIT))
