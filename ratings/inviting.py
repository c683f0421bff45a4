"""Invitations to seats."""

from django.db import transaction
from django.utils import timezone

from ratings import access
from ratings.models import Rater, Study
from ratings.studies import Actor, StudyClosed, StudyError, log


@transaction.atomic
def invite(rater: Rater, by: Actor = None) -> str:
    """A new personal link for this seat; earlier ones stop working. Returns its token, which is kept nowhere."""
    Study.objects.select_for_update().get(pk=rater.study_id)  # seats may be dealt anew at the same time
    rater = Rater.objects.select_related("study", "user").get(pk=rater.pk)
    if rater.simulated:
        raise StudyError(f"{rater.label} is a simulated rater; it gets no link")
    if not rater.study.is_open:
        raise StudyClosed(f"{rater.study.name} is {rater.study.status}; links are made while a study is open")
    token = access.make_link(rater.user, "rater")
    rater.invited_at = timezone.now()
    rater.save(update_fields=["invited_at"])
    log(rater.study, "invited", by, rater.label)
    return token


def invite_seat(study: Study, label: str, by: Actor = None) -> str:
    """A new link for the seat of that label; StudyError lists the labels there are."""
    if rater := study.raters.filter(label=label).first():
        return invite(rater, by)
    known = ", ".join(study.raters.values_list("label", flat=True)) or "none before the study is opened"
    raise StudyError(f"{study.slug} has no rater {label!r}. Raters: {known}")


@transaction.atomic
def start(rater: Rater) -> None:
    """The rater has read the guide: from now on the link works in no other browser."""
    Rater.objects.filter(pk=rater.pk, started_at__isnull=True).update(started_at=timezone.now())
    access.mark_used(rater.user)
