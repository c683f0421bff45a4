"""Crossover studies: the letter that says the washout is over and session 2 can be started."""

from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from ratings import crossover, mailing, posting, signing_in
from ratings.models import Assignment, Rater


def can_reach(seat: Rater) -> bool:
    """Return whether a letter can be sent: this site sends mail and the rater has an address."""
    user = seat.user
    return bool(settings.EMAIL_HOST and settings.SITE_URL and user and user.email and user.is_active)


def recall_raters(now: datetime | None = None) -> int:
    """Write to every rater whose washout ended and who has not begun session 2, once. Return how many letters went out.

    Run once an hour by the workers. Two of them at once send one letter: the first to set `recalled_at` sends it. A
    letter that the mail server refuses is tried again in the next hour.
    """
    now, sent = now or timezone.now(), 0
    for seat in _between_sessions():
        opens = crossover.opens_at(seat)
        if opens is None or now < opens or not can_reach(seat):
            continue
        if not Rater.objects.filter(pk=seat.pk, recalled_at__isnull=True).update(recalled_at=now):
            continue
        assert seat.user
        left = seat.assignments.filter(rating__isnull=True, released_at__isnull=True).count()
        url = mailing.link(signing_in.make_link(seat.user, "rater", posting.REMINDED), mailing.address_of())
        error = next(mailing.send([mailing.second_session(seat.user.email, seat.study, url, left)]))
        if error:
            Rater.objects.filter(pk=seat.pk).update(recalled_at=None)
        sent += not error
    return sent


def _between_sessions() -> list[Rater]:
    """Seats of open crossover studies whose holders finished session 1 and were shown nothing of session 2."""
    seats = Rater.objects.filter(
        study__status="open", study__protocol__design="crossover", user__isnull=False, simulated=False, imported_as="",
        withdrawn_at__isnull=True, finished_at__isnull=True, recalled_at__isnull=True,
    )  # fmt: skip
    begun = Assignment.objects.filter(rater=OuterRef("pk"), session=2, opened_at__isnull=False)
    seats = seats.filter(~Exists(begun))
    return list(seats.select_related("study", "user").order_by("pk"))
