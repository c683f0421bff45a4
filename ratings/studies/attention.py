"""What waits for an admin: in the studies they manage, in the laboratory, and among jobs. A constant number of queries.

Only rows of studies, raters, audits, jobs and runs are read, and of the answers at most one row of an index for each rater, so that
a page can show this on a site with a million ratings.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Concat, Substr
from django.utils import timezone

from ratings.models import Assignment, BlindingAudit, Invitation, Rater, Study
from ratings.studies import access
from simulation.jobs import jobs
from simulation.models import CodeEpisode, Episode, Job, Twin
from simulation.runs import vetting

IDLE_DAYS = 3
RECENT_DAYS = 14  # failures of jobs and runs that ended earlier are not listed
MAX_LISTED = 5  # of each kind of need
_UNDER_WAY = ("open", "paused")


class Need(NamedTuple):
    """One thing to do. `kind` is one of KINDS; `target` is the slug of a study, or the code of a run or job.

    `name` is that of the study or job. `number` is that of the raters, places, episodes or twins that it is about, and
    `more` whether there are further needs of its kind, which are not listed.
    """

    kind: str
    target: str
    name: str
    number: int = 0
    more: bool = False


# The most urgent first: what has stopped, then what delays people, then what can be completed.
KINDS = (
    "failed_job", "blocked_run", "failed_run", "failed_audit", "overdue_study", "complete_study", "audit",
    "idle_raters", "waiting_invitations", "free_places", "closed_study", "vetting", "draft",
)  # fmt: skip


def list_needs(user: User) -> list[Need]:
    """Return what this user can do now, the most urgent first; at most a few of each kind."""
    studies, now = access.list_managed_studies(user), timezone.now()
    needs = [*_iter_study_needs(studies), *_iter_rater_needs(studies, now), *_iter_failed_jobs(user, studies, now)]
    if user.is_staff:
        needs += [*_iter_failing_runs(user, now), *_iter_vetting()]
    listed: list[Need] = []
    for kind in KINDS:
        of_kind = [need for need in needs if need.kind == kind]
        has_more = len(of_kind) > MAX_LISTED
        listed += [need._replace(more=has_more) for need in of_kind[:MAX_LISTED]]
    return listed


def _iter_study_needs(studies: QuerySet[Study]) -> Iterator[Need]:
    audits = BlindingAudit.objects.filter(study=OuterRef("pk")).order_by("-at", "-pk")
    subject = Concat(Value("study/"), OuterRef("slug"))
    auditing = Job.objects.filter(kind="audit", subject=subject, status__in=Job.RUNNABLE)
    working = Rater.objects.filter(study=OuterRef("pk"), withdrawn_at=None, imported_as="").order_by().values("study")
    # Imported ratings have no waiting items; a study without people waits for nobody.
    sums = {"waiting": Sum("waiting_items"), "answered": Sum("answered_items")}
    rows = studies.exclude(status="unblinded").annotate(
        audit_passed=Subquery(audits.values("passed")[:1]),
        is_audited_now=Exists(auditing),
        waiting=Subquery(working.annotate(n=sums["waiting"]).values("n")),
        answered=Subquery(working.annotate(n=sums["answered"]).values("n")),
    )
    columns = (
        "slug",
        "name",
        "status",
        "protocol__design",
        "deadline",
        "audit_passed",
        "is_audited_now",
        "waiting",
        "answered",
    )
    today = timezone.localdate()
    for slug, name, status, design, deadline, passed, is_audited_now, waiting, answered in rows.order_by(
        F("opened_at").desc(nulls_last=True), "-pk"
    ).values_list(*columns):
        if status == "draft":
            yield Need("draft", slug, name)
            continue
        if status == "closed":
            yield Need("closed_study", slug, name)
        elif deadline and deadline < today:
            yield Need("overdue_study", slug, name)
        # In a pool raters claim items one at a time, so what they still have to rate is not in their rows.
        elif design != "pool" and answered and not waiting:
            yield Need("complete_study", slug, name)
        if passed is False:
            yield Need("failed_audit", slug, name)
        elif passed is None and not is_audited_now:
            yield Need("audit", slug, name)


def _iter_rater_needs(studies: QuerySet[Study], now: datetime) -> Iterator[Need]:
    idle_since = now - timedelta(days=IDLE_DAYS)
    people = Rater.objects.filter(
        study__in=studies.filter(status__in=_UNDER_WAY).values("pk"), withdrawn_at=None, simulated=False, imported_as=""
    )
    # One step in an index for each rater: whether there is an answer since then.
    has_answered = Assignment.objects.filter(rater=OuterRef("pk"), answered_at__gt=idle_since)
    joined = people.filter(user__isnull=False, finished_at=None, consented_at__lt=idle_since, study__status="open")
    has_work = Q(waiting_items__gt=0) | Q(study__protocol__design="pool")
    idle = joined.filter(has_work, ~Exists(has_answered))
    valid = Invitation.objects.filter(rater=OuterRef("pk"), revoked_at=None, expires_at__gt=now)
    places = people.filter(user=None)
    waiting = places.filter(Exists(valid.filter(created_at__lt=idle_since)))
    for kind, raters in (
        ("idle_raters", idle),
        ("waiting_invitations", waiting),
        ("free_places", places.filter(~Exists(valid))),
    ):
        grouped = raters.order_by().values_list("study__slug", "study__name").annotate(n=Count("pk"))
        for slug, name, n in grouped.order_by("-n", "study__slug")[: MAX_LISTED + 1]:
            yield Need(kind, slug, name, n)


def _iter_failed_jobs(user: User, studies: QuerySet[Study], now: datetime) -> Iterator[Need]:
    later = Job.objects.filter(subject=OuterRef("subject"), kind=OuterRef("kind"), pk__gt=OuterRef("pk"))
    failed = Job.objects.filter(~Exists(later), status="failed", created_at__gt=now - timedelta(days=RECENT_DAYS))
    # A deleted draft leaves its jobs, and its slug may be used again: those of before the study are not shown.
    slug = Substr(OuterRef("subject"), len("study/") + 1)
    of_study = studies.filter(slug=slug, created_at__lte=OuterRef("created_at"))
    own = Q(Exists(of_study), subject__startswith="study/")
    if user.is_staff:
        others = ~Q(subject__startswith="study/")
        own |= others if user.is_superuser else others & Q(asked_by=user)
    for code, kind in failed.filter(own).order_by("-pk").values_list("code", "kind")[: MAX_LISTED + 1]:
        yield Need("failed_job", str(code), jobs.get_title(kind))


def _iter_failing_runs(user: User, now: datetime) -> Iterator[Need]:
    # Runs that a command started have no user.
    own = Q() if user.is_superuser else Q(run__created_by=user) | Q(run__created_by=None)
    recently = Q(ended_at__gt=now - timedelta(days=RECENT_DAYS))
    for kind, condition in (("blocked_run", Q(status="blocked")), ("failed_run", Q(status="failed") & recently)):
        counts: dict[tuple[str, str], int] = {}
        counted = (Episode.objects.filter(counts=True), CodeEpisode.objects.filter(counts=True), Twin.objects.all())
        for rows in counted:
            grouped = rows.filter(condition, own).order_by().values_list("run__code", "run__cast")
            for code, cast, n, _ in grouped.annotate(n=Count("pk"), last=Max("pk")).order_by("-last")[: MAX_LISTED + 1]:
                counts[str(code), cast] = counts.get((str(code), cast), 0) + n
        for (code, cast), n in counts.items():
            yield Need(kind, code, f"Run by {cast}", n)


def _iter_vetting() -> Iterator[Need]:
    if n := vetting.get_vetting_queue().order_by().count():
        yield Need("vetting", "", "", n)
