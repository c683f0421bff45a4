"""What a study's frozen document states about how items are assigned and shown."""

from datetime import timedelta

from ratings.models import Rater, Study
from ratings.protocol import Arm, StudyProtocol, planning, protocols
from ratings.protocol.protocol_problems import CROSSED


def protocol_of(study: Study) -> StudyProtocol:
    return protocols.stored(study.protocol)


def is_pool(study: Study) -> bool:
    """Return whether raters reserve items as they come for them; nothing is assigned before."""
    return bool(study.protocol.get("design") == "pool")


def is_crossed(study: Study) -> bool:
    """Return whether every rater rates every item, in one session or in two."""
    return study.protocol.get("design") in CROSSED


def is_crossover(study: Study) -> bool:
    """Return whether every rater rates two conditions in two sessions."""
    return bool(study.protocol.get("design") == "crossover")


def lease(study: Study) -> timedelta:
    return timedelta(minutes=protocol_of(study).lease_minutes)


def arms_of(protocol: StudyProtocol) -> tuple[Arm, ...]:
    display = protocol.display
    return planning.every_arm(display.layouts, display.context, display.marks)


def arm(seat: Rater) -> Arm:
    """Return how this rater is shown items: their own arm, or the study's first arm if arms change from item to item."""
    protocol = protocol_of(seat.study)
    all_arms = arms_of(protocol)
    return (
        planning.arm_of_seat(all_arms, seat.study.draw, seat.number) if protocol.display.by == "rater" else all_arms[0]
    )
