"""E-mails that call raters back: the washout of a crossover is over, or items were added after they had finished."""

from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.models import Assignment, Rater
from ratings.raters import email_messages, invite_by_email
from ratings.studies import crossover, designs


def can_reach(rater: Rater) -> bool:
    """Return whether an e-mail can be sent: this site sends mail and the rater has an address."""
    user = rater.user
    return bool(settings.EMAIL_HOST and settings.SITE_URL and user and user.email and user.is_active)


def recall_raters(now: datetime | None = None) -> int:
    """Send one e-mail to every rater whose washout has ended and who has not begun session 2. Return how many were
    sent.

    Workers run this once an hour. If the mail server rejects a message, the next run tries again.
    """
    now, sent = now or timezone.now(), 0
    for rater in _find_between_sessions():
        opens = crossover.compute_session_2_start(rater)
        # The hourly run covers all studies, so raters who cannot be reached are skipped before anything is stored.
        if opens is None or now < opens or not can_reach(rater):
            continue
        # Two workers at once send one e-mail: only the first UPDATE sets the time.
        if not Rater.objects.filter(pk=rater.pk, recalled_at__isnull=True).update(recalled_at=now):
            continue
        assert rater.user
        left = rater.assignments.filter(rating__isnull=True, released_at__isnull=True).count()
        url = email_messages.build_link(
            signing_in.create_link(rater.user, "rater", invite_by_email.REMINDER_LIFETIME),
            email_messages.make_url_builder(),
        )
        error = next(
            email_messages.send_messages(
                [email_messages.write_second_session(rater.user.email, rater.study, url, left)]
            )
        )
        if error:
            # Cleared again, so that the next hourly run repeats the attempt.
            Rater.objects.filter(pk=rater.pk).update(recalled_at=None)
        sent += not error
    return sent


def announce_new_items(now: datetime | None = None) -> int:
    """Send an e-mail to every rater who had rated everything and was then given more items. Return how many were
    sent.

    Workers run this once an hour, for open studies. Each addition of items causes one e-mail. If the mail server
    rejects a message, the next run tries again. Raters who have already come back get none.
    """
    sent = 0
    raters = Rater.objects.filter(
        study__status="open", new_items_at__isnull=False, withdrawn_at__isnull=True, finished_at__isnull=True
    )
    for rater in raters.select_related("study", "user").order_by("pk"):
        since = rater.new_items_at
        # A rater who has returned since needs no e-mail, but the note is cleared.
        has_come = rater.last_seen_at is not None and since is not None and rater.last_seen_at > since
        if not has_come and not can_reach(rater):
            continue
        # Two workers at once send one e-mail: only the first UPDATE clears the time.
        if not Rater.objects.filter(pk=rater.pk, new_items_at=since).update(new_items_at=None):
            continue
        left = rater.assignments.filter(rating__isnull=True, released_at__isnull=True).count()
        if has_come or (not left and not designs.is_pool_study(rater.study)):
            continue
        assert rater.user
        url = email_messages.build_link(
            signing_in.create_link(rater.user, "rater", invite_by_email.REMINDER_LIFETIME),
            email_messages.make_url_builder(),
        )
        error = next(
            email_messages.send_messages([email_messages.write_new_items(rater.user.email, rater.study, url, left)])
        )
        if error:
            # Only if nobody has stored a newer note in the meantime.
            Rater.objects.filter(pk=rater.pk, new_items_at__isnull=True).update(new_items_at=since)
        sent += not error
    return sent


def _find_between_sessions() -> list[Rater]:
    """Return raters of open crossover studies who have not been shown an item of session 2, nor been sent the e-mail
    about it.
    """
    raters = Rater.objects.filter(
        study__status="open", study__protocol__design="crossover", user__isnull=False, simulated=False, imported_as="",
        withdrawn_at__isnull=True, finished_at__isnull=True, recalled_at__isnull=True,
    )  # fmt: skip
    shown_in_session_2 = Assignment.objects.filter(rater=OuterRef("pk"), session=2, opened_at__isnull=False)
    raters = raters.filter(~Exists(shown_in_session_2))
    return list(raters.select_related("study", "user").order_by("pk"))
