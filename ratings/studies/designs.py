"""What a study's frozen document says of serving it."""

from datetime import timedelta

from ratings.models import Rater, Study
from ratings.protocol import Arm, StudyProtocol, planning, protocols
from ratings.protocol.protocol_problems import CROSSED


def protocol_of(study: Study) -> StudyProtocol:
    return protocols.stored(study.protocol)


def is_pool(study: Study) -> bool:
    """Items are claimed as raters come for them, and nothing is dealt out before."""
    return bool(study.protocol.get("design") == "pool")


def is_crossed(study: Study) -> bool:
    """Every rater rates every item, be it in one session or in two."""
    return study.protocol.get("design") in CROSSED


def is_crossover(study: Study) -> bool:
    """Every rater reads two conditions in two sessions."""
    return bool(study.protocol.get("design") == "crossover")


def lease(study: Study) -> timedelta:
    return timedelta(minutes=protocol_of(study).lease_minutes)


def arms_of(protocol: StudyProtocol) -> tuple[Arm, ...]:
    display = protocol.display
    return planning.every_arm(display.layouts, display.context, display.marks)


def arm(seat: Rater) -> Arm:
    """How this seat is shown things: its own arm; where arms change from item to item, the study's first."""
    protocol = protocol_of(seat.study)
    every = arms_of(protocol)
    return planning.arm_of_seat(every, seat.study.draw, seat.number) if protocol.display.by == "rater" else every[0]
