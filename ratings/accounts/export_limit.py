"""How many exports somebody may take in an hour: counted from the logs of studies and the jobs that make archives.

It is looked up before an export is begun: those asked for at the same moment go out together. A brake, then, on what runs wild;
what went out stands in the log in any case.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from ratings.models import StudyEvent
from simulation.models import Job

HOUR = timedelta(hours=1)


def seconds_left(user: User) -> int:
    """How long this user has to wait for the next; 0 if they need not."""
    since = timezone.now() - HOUR
    events = StudyEvent.objects.filter(kind="exported", by=user, at__gt=since).values_list("at", flat=True)
    asked = Job.objects.filter(kind="export", asked_by=user, created_at__gt=since).exclude(status="done")
    taken = sorted([*events, *asked.values_list("created_at", flat=True)])
    most = settings.EXPORTS_PER_HOUR
    if len(taken) < most:
        return 0
    return max(1, int((taken[-most] + HOUR - timezone.now()).total_seconds()) + 1)
