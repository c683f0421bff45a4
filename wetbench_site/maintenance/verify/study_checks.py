"""Rules that studies, items and stored documents must meet in every database."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from ratings.blinding import pair_digest, payload_digest
from ratings.models import (
    Analysis,
    Benchmark,
    BlindingAudit,
    GuideVersion,
    ImportedItem,
    Item,
    ItemSource,
    MachineRating,
    Membership,
    MembershipChange,
    Quarantine,
    Rater,
    Rating,
    Study,
    StudyEvent,
)
from ratings.models.study_events import ContentError, MemberChanged, load_content
from ratings.results.analyses import store
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies.blinding_audit import audit_runner
from wetbench_site.maintenance.verify.checks import (
    Violation,
    build_check,
    build_digest_check,
    build_violation,
    iter_rows,
    report_rows,
)

_PROMISE = "what raters see matches the digest that was stored when it was frozen"
DIGEST_CHECKS = tuple(
    build_digest_check(name, _PROMISE, model, (key, shown, f"{shown}_sha256"), payload_digest)
    for name, model, key, shown in (
        ("payloads of items", Item, "code", "payload"),
        ("contexts of items", Item, "code", "context"),
        ("payloads of imported items", ImportedItem, "key", "payload"),
        ("contexts of imported items", ImportedItem, "key", "context"),
        ("payloads in quarantine", Quarantine, "pk", "payload"),
    )
)


@build_check("pairs of items", Item)
def check_item_pairs() -> Iterator[Violation]:
    """An item's pair digest is that of its action and materials."""
    for code, payload, sha in iter_rows(Item.objects.order_by("pk").values_list("code", "payload", "pair_sha256")):
        if payload.get("kind") and (digest := pair_digest(payload)) != sha:
            yield build_violation(Item, code, sha, digest)


@build_check("sources of items", ItemSource)
def check_item_sources() -> Iterator[Violation]:
    """Every item has one source, and versions of one transition, and only they, share a pair."""
    yield from report_rows(Item.objects.order_by().filter(source__isnull=True), "a source", "none")
    sources, item = ItemSource.objects.order_by(), "{item__code}"
    twins = sources.filter(twin__isnull=False).exclude(twin__transition=F("transition"))
    yield from report_rows(twins, "a twin of its transition", "a twin of another transition", item)
    # Items of an opening that is being prepared come from imports into the draft that it is for.
    own_study = Q(imported__study=F("item__study")) | Q(imported__study=F("item__study__preparation_of"))
    wrong_study = sources.filter(imported__isnull=False).exclude(own_study)
    yield from report_rows(wrong_study, "an import into its study", "an import into another study", item)
    steps = sources.filter(transition__isnull=False).values("item__study__slug", "transition__code")
    split_pairs = steps.annotate(n=Count("pair", distinct=True)).filter(n__gt=1)
    code = "{item__study__slug}, transition {transition__code}"
    yield from report_rows(split_pairs, "one pair", "{n} pairs", code)


@build_check("ratings by machines", MachineRating)
def check_machine_ratings() -> Iterator[Violation]:
    """A model rater rated the current payload of the item, in its own study."""
    ratings = MachineRating.objects.order_by()
    different = ratings.filter(~Q(payload_sha256=F("item__payload_sha256")) | ~Q(item__study=F("rater__study")))
    expected, code = "{item__payload_sha256}, of its own study", "{rater__label}, item {item__code}"
    yield from report_rows(different, expected, "{payload_sha256}", code)


ITEM_CHECKS = (*DIGEST_CHECKS, check_item_pairs, check_item_sources, check_machine_ratings)


_STUDIES = Study.objects.order_by("pk")
_STATUS_AFTER = {
    "created": "draft", "opened": "open", "paused": "paused", "resumed": "open", "closed": "closed",
    "reopened": "open", "unblinded": "unblinded",
}  # fmt: skip


@build_check("statuses of studies", Study)
def check_study_statuses() -> Iterator[Violation]:
    """The status of a study follows from its log, and every status change in the log is permitted."""
    moves = StudyEvent.objects.filter(kind__in=_STATUS_AFTER)
    events = moves.order_by("study_id", "pk").values_list("study_id", "kind")
    logs = {study: [kind for _, kind in log] for study, log in groupby(iter_rows(events), lambda move: move[0])}
    for pk, slug, status in _STUDIES.values_list("pk", "slug", "status"):
        current = ""
        for kind in logs.get(pk, []):
            if current and _STATUS_AFTER[kind] not in Study.MOVES[current]:
                yield build_violation(StudyEvent, slug, f"a status change that is possible from {current}", kind)
            current = _STATUS_AFTER[kind]
        if current != status:
            yield build_violation(Study, slug, f"{current or 'no status'}, by its log", status)


@build_check("contents of events", StudyEvent)
def check_event_contents() -> Iterator[Violation]:
    """An event of a study has the fields and types of its kind, or is a sentence of an early release."""
    events = StudyEvent.objects.order_by("pk").values_list("study__slug", "kind", "data")
    for slug, kind, data in iter_rows(events):
        try:
            load_content(kind, data)
        except ContentError as error:
            yield build_violation(StudyEvent, slug, f"the data of an event of kind {kind}", error)


@build_check("changes of members", MembershipChange)
def check_role_changes() -> Iterator[Violation]:
    """The log of a study and the table that authorisation reads have the same role changes."""
    # Counters, because the same role can be granted and removed several times.
    logged: Counter[tuple[str, int | None, str, bool]] = Counter()
    accounts = set(User.objects.values_list("pk", flat=True))
    events = StudyEvent.objects.filter(kind=MemberChanged.kind).order_by("pk")
    for slug, data in iter_rows(events.values_list("study__slug", "data")):
        with suppress(ContentError):  # reported by another check
            if isinstance(content := load_content(MemberChanged.kind, data), MemberChanged):
                account = content.account if content.account in accounts else None  # a deleted account has no user
                logged[slug, account, content.role, content.granted] += 1
    changes = MembershipChange.objects.order_by("pk").values_list("study__slug", "user", "role", "granted")
    stored = Counter(iter_rows(changes))
    for slug, account, role, granted in (logged - stored).elements():
        expected = f"a row for account {account}, {role or 'no'} role, granted: {granted}"
        yield build_violation(MembershipChange, slug, expected, "none")
    for slug, account, role, granted in (stored - logged).elements():
        found = f"account {account}, {role or 'no'} role, granted: {granted}"
        yield build_violation(MembershipChange, slug, "no row without an event", found)


@build_check("times of studies", Study)
def check_study_times() -> Iterator[Violation]:
    """A study has the times of its status changes, and a draft has no items."""
    closed, opened = Q(status__in=("closed", "unblinded")), ~Q(status="draft")
    inconsistent = (
        (opened ^ Q(opened_at__isnull=False))
        | (closed ^ Q(closed_at__isnull=False))
        | (Q(status="unblinded") ^ Q(unblinded_at__isnull=False))
    )
    times = "{opened_at}, {closed_at}, {unblinded_at}"
    yield from report_rows(_STUDIES.filter(inconsistent), "{status}, with its times", times, "{slug}")
    drafts = _STUDIES.filter(status="draft", items__isnull=False)
    yield from report_rows(drafts, "a draft without items", "items", "{slug}")


@build_check("versions of guides", GuideVersion)
def check_guide_versions() -> Iterator[Violation]:
    """Every version of a study's instructions is stored, and every rating names one of them."""
    studies = _STUDIES.annotate(n=Count("guides"), first=Min("guides__number"), last=Max("guides__number"))
    broken = studies.exclude(n=F("guide_version"), first=1, last=F("n"))
    yield from report_rows(broken, "versions 1 to {guide_version} of its instructions", "{n} of them", "{slug}")
    current = GuideVersion.objects.order_by("pk").filter(number=F("study__guide_version"))
    changed, expected = current.exclude(text=F("study__guide")), "the instructions of its last version"
    yield from report_rows(changed, expected, "different ones", "{study__slug}", Study)
    unknown_versions = Rating.objects.order_by().filter(guide_version__gt=F("assignment__rater__study__guide_version"))
    expected = "an existing version of the instructions"
    yield from report_rows(unknown_versions, expected, "{guide_version}", "{assignment__code}")


@build_check("roles and consent of raters", Rater)
def check_rater_roles() -> Iterator[Violation]:
    """Nobody rates in a study that they run or analyse, and nobody rated without consent."""
    roles = Membership.objects.filter(study=OuterRef("study"), user=OuterRef("user"))
    raters = Rater.objects.order_by("pk")
    yield from report_rows(raters.filter(Exists(roles)), "{label} is nobody with a role in the study", "has a role")
    rated = Rating.objects.filter(assignment__rater=OuterRef("pk"))
    not_consented = raters.filter(Exists(rated), user__isnull=False, consented_at__isnull=True, imported_as="")
    yield from report_rows(not_consented, "{label} rated after consent", "ratings without consent")
    for code, label, number in iter_rows(raters.values_list("code", "label", "number")):
        if label != f"R{number:02}":
            yield build_violation(Rater, code, f"R{number:02}", label)


STUDY_CHECKS = (
    check_study_statuses, check_event_contents, check_role_changes, check_study_times, check_guide_versions,
    check_rater_roles,
)  # fmt: skip


check_analysis_digests = build_digest_check(
    "documents of analyses", "a stored analysis matches the digest in its files and figures",
    Analysis, ("key", "document", "sha256"), store.hash_document,
)  # fmt: skip


@build_check("episodes of benchmarks", Benchmark)
def check_benchmark_episodes() -> Iterator[Violation]:
    """A benchmark has the episodes that were frozen, with the same ends."""
    for benchmark in iter_rows(Benchmark.objects.order_by("pk")):
        # The digest does not need them, and they are the largest columns of an episode.
        episodes = benchmark.episodes.defer("initial", "memory")
        if (digest := benchmark_store.hash_episodes(list(episodes))) != benchmark.sha256:
            yield build_violation(Benchmark, benchmark.code, benchmark.sha256, digest)


@build_check("reports of audits", BlindingAudit)
def check_audit_reports() -> Iterator[Violation]:
    """A blinding audit matches the digest and the result of its report."""
    audits = BlindingAudit.objects.order_by("pk").values_list("pk", "study__slug", "report", "sha256", "passed")
    for pk, study, report, sha, passed in iter_rows(audits):
        if (digest := audit_runner.compute_digest(report)) != sha:
            yield build_violation(BlindingAudit, f"{pk} of {study}", sha, digest)
        if report.get("passed") is not passed:
            yield build_violation(BlindingAudit, f"{pk} of {study}", f"passed: {report.get('passed')}", passed)


DOCUMENT_CHECKS = (check_analysis_digests, check_benchmark_episodes, check_audit_reports)
