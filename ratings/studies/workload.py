"""How much a study asks of a rater, shown before they agree."""

from ratings.models import TRANSITION, Assignment, Rater

_MINUTES_PER_ITEM = {
    True: 2,
    False: 5,
}  # minutes for one outcome, for a full record: an estimate, shown before anybody has rated
_PREPARATION_MINUTES = 10  # minutes for the guide and the practice items


def count_items(rater: Rater) -> int | None:
    """Return how many items are assigned to the rater, or None if there are none, because items are reserved one at a
    time.
    """
    return Assignment.objects.filter(rater=rater, released_at__isnull=True).count() or None


def describe_time_needed(rater: Rater, items: int | None) -> str:
    """Return an estimate of the time that the rater needs, in a sentence."""
    minutes_per_item = _MINUTES_PER_ITEM[rater.study.kind == TRANSITION]
    if items is None:
        return f"About {_PREPARATION_MINUTES} minutes to start with, then about {minutes_per_item} minutes per item"
    return f"About {_format_duration(_PREPARATION_MINUTES + items * minutes_per_item)} in all; you can stop and come back as often as you like"


def _format_duration(minutes: int) -> str:
    # Rounded up to five minutes, and to half hours from an hour on: more digits would promise too much.
    if minutes < 55:
        return f"{-(-minutes // 5) * 5} minutes"
    halves = round(minutes / 30)
    hours, half = divmod(halves, 2)
    return f"{hours}{' and a half' if half else ''} hour{'' if halves == 2 else 's'}"
