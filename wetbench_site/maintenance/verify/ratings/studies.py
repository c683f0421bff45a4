"""Checks of studies: the status follows from the log, and people have only permitted roles."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from ratings.models import GuideVersion, Membership, MembershipChange, Rater, Rating, Study, StudyEvent
from ratings.models.study_events import ContentError, MemberChanged, read_content
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_LEADS = {
    "created": "draft", "opened": "open", "paused": "paused", "resumed": "open", "closed": "closed",
    "reopened": "open", "unblinded": "unblinded",
}  # fmt: skip


@check(
    "statuses of studies",
    "the status of a study follows from its log, and every status change in the log is permitted",
    Study,
)
def statuses_of_studies() -> Iterator[Wrong]:
    events = StudyEvent.objects.filter(kind__in=_LEADS).order_by("study_id", "pk").values_list("study_id", "kind")
    logs = {study: [kind for _, kind in log] for study, log in groupby(rows(events), lambda move: move[0])}
    for pk, slug, status in Study.objects.order_by("pk").values_list("pk", "slug", "status"):
        current = ""
        for kind in logs.get(pk, []):
            if current and _LEADS[kind] not in Study.MOVES[current]:
                yield wrong(StudyEvent, slug, f"a status change that is possible from {current}", kind)
            current = _LEADS[kind]
        if current != status:
            yield wrong(Study, slug, f"{current or 'no status'}, by its log", status)


@check(
    "contents of events",
    "an event of a study has the fields and types of its kind, or is a sentence of an early release",
    StudyEvent,
)
def contents_of_events() -> Iterator[Wrong]:
    events = StudyEvent.objects.order_by("pk").values_list("study__slug", "kind", "data")
    for slug, kind, data in rows(events):
        try:
            read_content(kind, data)
        except ContentError as error:
            yield wrong(StudyEvent, slug, f"the data of an event of kind {kind}", error)


@check(
    "changes of members",
    "the log of a study and the table that authorisation reads have the same role changes",
    MembershipChange,
)
def changes_of_members() -> Iterator[Wrong]:
    # Counters, because the same role can be granted and removed several times.
    logged: Counter[tuple[str, int | None, str, bool]] = Counter()
    accounts = set(User.objects.values_list("pk", flat=True))
    events = StudyEvent.objects.filter(kind=MemberChanged.kind).order_by("pk")
    for slug, data in rows(events.values_list("study__slug", "data")):
        with suppress(ContentError):  # reported by another check
            if isinstance(content := read_content(MemberChanged.kind, data), MemberChanged):
                account = content.account if content.account in accounts else None  # deleted: the table has no user
                logged[slug, account, content.role, content.granted] += 1
    changes = MembershipChange.objects.order_by("pk").values_list("study__slug", "user", "role", "granted")
    stored = Counter(rows(changes))
    for slug, account, role, granted in (logged - stored).elements():
        yield wrong(
            MembershipChange, slug, f"a row for account {account}, {role or 'no'} role, granted: {granted}", "none"
        )
    for slug, account, role, granted in (stored - logged).elements():
        yield wrong(
            MembershipChange,
            slug,
            "no row without an event",
            f"account {account}, {role or 'no'} role, granted: {granted}",
        )


@check("times of studies", "a study has the times of its status changes, and a draft has no items", Study)
def times_of_studies() -> Iterator[Wrong]:
    closed, opened = Q(status__in=("closed", "unblinded")), ~Q(status="draft")
    inconsistent = (
        (opened ^ Q(opened_at__isnull=False))
        | (closed ^ Q(closed_at__isnull=False))
        | (Q(status="unblinded") ^ Q(unblinded_at__isnull=False))
    )
    times = ("slug", "status", "opened_at", "closed_at", "unblinded_at")
    for slug, status, *values in rows(Study.objects.order_by("pk").filter(inconsistent).values_list(*times)):
        yield wrong(Study, slug, f"{status}, with its times", ", ".join(str(one) for one in values))
    for slug in Study.objects.order_by("pk").filter(status="draft", items__isnull=False).values_list("slug", flat=True):
        yield wrong(Study, slug, "a draft without items", "items")


@check(
    "versions of guides",
    "every version of a study's instructions is stored, and every rating names one of them",
    GuideVersion,
)
def versions_of_guides() -> Iterator[Wrong]:
    last = Max("guides__number")
    studies = Study.objects.order_by("pk").annotate(n=Count("guides"), first=Min("guides__number"), last=last)
    broken = studies.exclude(n=F("guide_version"), first=1, last=F("n"))
    for slug, n, version in rows(broken.values_list("slug", "n", "guide_version")):
        yield wrong(Study, slug, f"versions 1 to {version} of its instructions", f"{n} of them")
    current = GuideVersion.objects.order_by("pk").filter(number=F("study__guide_version"))
    for slug in rows(current.exclude(text=F("study__guide")).values_list("study__slug", flat=True)):
        yield wrong(Study, slug, "the instructions of its last version", "different ones")
    unknown_versions = Rating.objects.order_by().filter(guide_version__gt=F("assignment__rater__study__guide_version"))
    for code, number in rows(unknown_versions.values_list("assignment__code", "guide_version")):
        yield wrong(Rating, code, "an existing version of the instructions", number)


@check(
    "roles and consent of raters",
    "nobody rates in a study that they run or analyse, and nobody rated without consent",
    Rater,
)
def seats() -> Iterator[Wrong]:
    roles = Membership.objects.filter(study=OuterRef("study"), user=OuterRef("user"))
    for code, label in rows(Rater.objects.order_by("pk").filter(Exists(roles)).values_list("code", "label")):
        yield wrong(Rater, code, f"{label} is nobody with a role in the study", "has a role")
    rated = Rating.objects.filter(assignment__rater=OuterRef("pk"))
    not_consented = Rater.objects.order_by("pk").filter(user__isnull=False, consented_at__isnull=True, imported_as="")
    for code, label in rows(not_consented.filter(Exists(rated)).values_list("code", "label")):
        yield wrong(Rater, code, f"{label} rated after consent", "ratings without consent")
    for code, label, number in rows(Rater.objects.order_by("pk").values_list("code", "label", "number")):
        if label != f"R{number:02}":
            yield wrong(Rater, code, f"R{number:02}", label)


CHECKS = (statuses_of_studies, contents_of_events, changes_of_members, times_of_studies, versions_of_guides, seats)
