"""Limit exports per person and hour, counted from the logs of studies and the jobs that create archives.

The limit is checked before an export begins, so simultaneous requests may exceed it. Its purpose is to stop programs
that export in a loop; every export is logged in any case.
"""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from ratings.models import StudyEvent
from simulation.models import Job

HOUR = timedelta(hours=1)


def seconds_until_allowed(user: User) -> int:
    """Return how many seconds this user must wait before the next export; 0 if an export is allowed now."""
    since = timezone.now() - HOUR
    events = StudyEvent.objects.filter(kind="exported", by=user, at__gt=since).values_list("at", flat=True)
    # Jobs that are not done count as well: their event is written at the end, and until then they would not be limited.
    open_jobs = Job.objects.filter(kind="export", asked_by=user, created_at__gt=since).exclude(status="done")
    export_times = sorted([*events, *open_jobs.values_list("created_at", flat=True)])
    limit = settings.EXPORTS_PER_HOUR
    if len(export_times) < limit:
        return 0
    # + 1 rounds up, so that a request after the waiting time is not rejected by a fraction of a second.
    return max(1, int((export_times[-limit] + HOUR - timezone.now()).total_seconds()) + 1)
