"""Rules that studies, items and stored documents must meet in every database."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

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
    Check,
    FindViolations,
    Violation,
    build_check,
    build_violation,
    iter_rows,
)

FrozenModel = type[Item] | type[ImportedItem] | type[Quarantine]


def _build_digest_check(model: FrozenModel, name: str, content_field: str) -> FindViolations:
    def find_changed_content() -> Iterator[Violation]:
        stored: Any = model._default_manager.order_by("pk").values_list(name, content_field, f"{content_field}_sha256")
        for code, text, sha in iter_rows(stored):
            if (digest := payload_digest(text)) != sha:
                yield build_violation(model, code, sha, digest)

    return find_changed_content


_FROZEN_FIELDS: tuple[tuple[str, FrozenModel, str, str], ...] = (
    ("payloads of items", Item, "code", "payload"),
    ("contexts of items", Item, "code", "context"),
    ("payloads of imported items", ImportedItem, "key", "payload"),
    ("contexts of imported items", ImportedItem, "key", "context"),
    ("payloads in quarantine", Quarantine, "pk", "payload"),
)
DIGEST_CHECKS = tuple(
    Check(
        name,
        "what raters see matches the digest that was stored when it was frozen",
        of,
        _build_digest_check(of, key, shown),
    )
    for name, of, key, shown in _FROZEN_FIELDS
)


@build_check("pairs of items", "an item's pair digest is that of its action and materials", Item)
def check_item_pairs() -> Iterator[Violation]:
    for code, payload, sha in iter_rows(Item.objects.order_by("pk").values_list("code", "payload", "pair_sha256")):
        if payload.get("kind") and (digest := pair_digest(payload)) != sha:
            yield build_violation(Item, code, sha, digest)


@build_check(
    "sources of items",
    "every item has one source, and versions of one transition, and only they, share a pair",
    ItemSource,
)
def check_item_sources() -> Iterator[Violation]:
    for code in iter_rows(Item.objects.order_by().filter(source__isnull=True).values_list("code", flat=True)):
        yield build_violation(Item, code, "a source", "none")
    sources = ItemSource.objects.order_by()
    twins = sources.filter(twin__isnull=False).exclude(twin__transition=F("transition"))
    for code in iter_rows(twins.values_list("item__code", flat=True)):
        yield build_violation(ItemSource, code, "a twin of its transition", "a twin of another transition")
    wrong_study = sources.filter(imported__isnull=False).exclude(imported__study=F("item__study"))
    for code in iter_rows(wrong_study.values_list("item__code", flat=True)):
        yield build_violation(ItemSource, code, "an import into its study", "an import into another study")
    steps = sources.filter(transition__isnull=False)
    split_pairs = steps.values("item__study__slug", "transition__code").annotate(n=Count("pair", distinct=True))
    for study, step, n in iter_rows(
        split_pairs.filter(n__gt=1).values_list("item__study__slug", "transition__code", "n")
    ):
        yield build_violation(ItemSource, f"{study}, transition {step}", "one pair", f"{n} pairs")


@build_check(
    "ratings by machines", "a model rater rated the current payload of the item, in its own study", MachineRating
)
def check_machine_ratings() -> Iterator[Violation]:
    ratings = MachineRating.objects.order_by()
    different = ratings.filter(~Q(payload_sha256=F("item__payload_sha256")) | ~Q(item__study=F("rater__study")))
    for label, item, sha, rated_sha in iter_rows(
        different.values_list("rater__label", "item__code", "item__payload_sha256", "payload_sha256")
    ):
        yield build_violation(MachineRating, f"{label}, item {item}", f"{sha}, of its own study", rated_sha)


ITEM_CHECKS = (*DIGEST_CHECKS, check_item_pairs, check_item_sources, check_machine_ratings)


_STATUS_AFTER = {
    "created": "draft", "opened": "open", "paused": "paused", "resumed": "open", "closed": "closed",
    "reopened": "open", "unblinded": "unblinded",
}  # fmt: skip


@build_check(
    "statuses of studies",
    "the status of a study follows from its log, and every status change in the log is permitted",
    Study,
)
def check_study_statuses() -> Iterator[Violation]:
    events = (
        StudyEvent.objects.filter(kind__in=_STATUS_AFTER).order_by("study_id", "pk").values_list("study_id", "kind")
    )
    logs = {study: [kind for _, kind in log] for study, log in groupby(iter_rows(events), lambda move: move[0])}
    for pk, slug, status in Study.objects.order_by("pk").values_list("pk", "slug", "status"):
        current = ""
        for kind in logs.get(pk, []):
            if current and _STATUS_AFTER[kind] not in Study.MOVES[current]:
                yield build_violation(StudyEvent, slug, f"a status change that is possible from {current}", kind)
            current = _STATUS_AFTER[kind]
        if current != status:
            yield build_violation(Study, slug, f"{current or 'no status'}, by its log", status)


@build_check(
    "contents of events",
    "an event of a study has the fields and types of its kind, or is a sentence of an early release",
    StudyEvent,
)
def check_event_contents() -> Iterator[Violation]:
    events = StudyEvent.objects.order_by("pk").values_list("study__slug", "kind", "data")
    for slug, kind, data in iter_rows(events):
        try:
            load_content(kind, data)
        except ContentError as error:
            yield build_violation(StudyEvent, slug, f"the data of an event of kind {kind}", error)


@build_check(
    "changes of members",
    "the log of a study and the table that authorisation reads have the same role changes",
    MembershipChange,
)
def check_role_changes() -> Iterator[Violation]:
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
        yield build_violation(
            MembershipChange, slug, f"a row for account {account}, {role or 'no'} role, granted: {granted}", "none"
        )
    for slug, account, role, granted in (stored - logged).elements():
        yield build_violation(
            MembershipChange,
            slug,
            "no row without an event",
            f"account {account}, {role or 'no'} role, granted: {granted}",
        )


@build_check("times of studies", "a study has the times of its status changes, and a draft has no items", Study)
def check_study_times() -> Iterator[Violation]:
    closed, opened = Q(status__in=("closed", "unblinded")), ~Q(status="draft")
    inconsistent = (
        (opened ^ Q(opened_at__isnull=False))
        | (closed ^ Q(closed_at__isnull=False))
        | (Q(status="unblinded") ^ Q(unblinded_at__isnull=False))
    )
    times = ("slug", "status", "opened_at", "closed_at", "unblinded_at")
    for slug, status, *values in iter_rows(Study.objects.order_by("pk").filter(inconsistent).values_list(*times)):
        yield build_violation(Study, slug, f"{status}, with its times", ", ".join(str(one) for one in values))
    for slug in Study.objects.order_by("pk").filter(status="draft", items__isnull=False).values_list("slug", flat=True):
        yield build_violation(Study, slug, "a draft without items", "items")


@build_check(
    "versions of guides",
    "every version of a study's instructions is stored, and every rating names one of them",
    GuideVersion,
)
def check_guide_versions() -> Iterator[Violation]:
    last = Max("guides__number")
    studies = Study.objects.order_by("pk").annotate(n=Count("guides"), first=Min("guides__number"), last=last)
    broken = studies.exclude(n=F("guide_version"), first=1, last=F("n"))
    for slug, n, version in iter_rows(broken.values_list("slug", "n", "guide_version")):
        yield build_violation(Study, slug, f"versions 1 to {version} of its instructions", f"{n} of them")
    current = GuideVersion.objects.order_by("pk").filter(number=F("study__guide_version"))
    for slug in iter_rows(current.exclude(text=F("study__guide")).values_list("study__slug", flat=True)):
        yield build_violation(Study, slug, "the instructions of its last version", "different ones")
    unknown_versions = Rating.objects.order_by().filter(guide_version__gt=F("assignment__rater__study__guide_version"))
    for code, number in iter_rows(unknown_versions.values_list("assignment__code", "guide_version")):
        yield build_violation(Rating, code, "an existing version of the instructions", number)


@build_check(
    "roles and consent of raters",
    "nobody rates in a study that they run or analyse, and nobody rated without consent",
    Rater,
)
def check_rater_roles() -> Iterator[Violation]:
    roles = Membership.objects.filter(study=OuterRef("study"), user=OuterRef("user"))
    for code, label in iter_rows(Rater.objects.order_by("pk").filter(Exists(roles)).values_list("code", "label")):
        yield build_violation(Rater, code, f"{label} is nobody with a role in the study", "has a role")
    rated = Rating.objects.filter(assignment__rater=OuterRef("pk"))
    not_consented = Rater.objects.order_by("pk").filter(user__isnull=False, consented_at__isnull=True, imported_as="")
    for code, label in iter_rows(not_consented.filter(Exists(rated)).values_list("code", "label")):
        yield build_violation(Rater, code, f"{label} rated after consent", "ratings without consent")
    for code, label, number in iter_rows(Rater.objects.order_by("pk").values_list("code", "label", "number")):
        if label != f"R{number:02}":
            yield build_violation(Rater, code, f"R{number:02}", label)


STUDY_CHECKS = (
    check_study_statuses,
    check_event_contents,
    check_role_changes,
    check_study_times,
    check_guide_versions,
    check_rater_roles,
)


@build_check("documents of analyses", "a stored analysis matches the digest in its files and figures", Analysis)
def check_analysis_digests() -> Iterator[Violation]:
    for key, document, sha in iter_rows(Analysis.objects.order_by("pk").values_list("key", "document", "sha256")):
        if (digest := store.hash_document(document)) != sha:
            yield build_violation(Analysis, key, sha, digest)


@build_check("episodes of benchmarks", "a benchmark has the episodes that were frozen, with the same ends", Benchmark)
def check_benchmark_episodes() -> Iterator[Violation]:
    for benchmark in iter_rows(Benchmark.objects.order_by("pk")):
        # The digest does not need them, and they are the largest columns of an episode.
        episodes = benchmark.episodes.defer("initial", "memory")
        if (digest := benchmark_store.hash_episodes(list(episodes))) != benchmark.sha256:
            yield build_violation(Benchmark, benchmark.code, benchmark.sha256, digest)


@build_check(
    "reports of audits",
    "a blinding audit matches the digest and the result of its report",
    BlindingAudit,
)
def check_audit_reports() -> Iterator[Violation]:
    audits = BlindingAudit.objects.order_by("pk").values_list("pk", "study__slug", "report", "sha256", "passed")
    for pk, study, report, sha, passed in iter_rows(audits):
        if (digest := audit_runner.compute_digest(report)) != sha:
            yield build_violation(BlindingAudit, f"{pk} of {study}", sha, digest)
        if report.get("passed") is not passed:
            yield build_violation(BlindingAudit, f"{pk} of {study}", f"passed: {report.get('passed')}", passed)


DOCUMENT_CHECKS = (check_analysis_digests, check_benchmark_episodes, check_audit_reports)
