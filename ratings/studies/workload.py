"""How much a study asks of a rater, told before they agree."""

from ratings.models import TRANSITION, Assignment, Rater

_MINUTES = {True: 2, False: 5}  # an outcome, a whole record: told as a guess, before anybody has rated
_READING = 10  # the guide and the practice items


def items_of(seat: Rater) -> int | None:
    """How many items the seat is to rate; None where items are claimed one at a time."""
    return Assignment.objects.filter(rater=seat, released_at__isnull=True).count() or None


def time_needed(seat: Rater, items: int | None) -> str:
    """A guess in a sentence."""
    each = _MINUTES[seat.study.kind == TRANSITION]
    if items is None:
        return f"About {_READING} minutes to begin with, then about {each} minutes an item"
    return f"About {_spoken(_READING + items * each)} in all; you can stop and come back as often as you like"


def _spoken(minutes: int) -> str:
    if minutes < 55:
        return f"{-(-minutes // 5) * 5} minutes"
    halves = round(minutes / 30)
    whole, half = divmod(halves, 2)
    return f"{whole}{' and a half' if half else ''} hour{'' if halves == 2 else 's'}"
