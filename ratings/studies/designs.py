"""What a study's frozen document states about how items are assigned and shown."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Max
from django.db.models.functions import Coalesce, Greatest

from ratings.models import Assignment, ItemSource, Rater, Rating, Study
from ratings.models.answers import WAITING
from ratings.protocol import Arm, CandidateItem, PlanError, StudyProtocol, assign_items, draw_items, study_protocol
from ratings.protocol.plan_types import IdenticalCases, Source
from wetbench_site.text import format_count


def load_study_protocol(study: Study) -> StudyProtocol:
    return study_protocol.load_protocol(study.protocol)


def is_pool_study(study: Study) -> bool:
    return _get_design(study).is_pool


def is_crossed(study: Study) -> bool:
    return _get_design(study).is_crossed


def is_crossover(study: Study) -> bool:
    return _get_design(study).has_sessions


# Without reading the other fields of the document, which takes longer.
def _get_design(study: Study) -> study_protocol.Design:
    return study_protocol.DESIGNS[study.protocol.get("design", "balanced")]


def get_reservation_time(study: Study) -> timedelta:
    return timedelta(minutes=load_study_protocol(study).lease_minutes)


def list_arms_of(protocol: StudyProtocol) -> tuple[Arm, ...]:
    display = protocol.display
    return assign_items.list_arms(display.layouts, display.context, display.marks)


def get_arm(rater: Rater) -> Arm:
    """Return this rater's own display arm, or the study's first arm if arms change from item to item."""
    protocol = load_study_protocol(rater.study)
    all_arms = list_arms_of(protocol)
    if protocol.display.by == "item":
        return all_arms[0]
    return assign_items.arm_of_rater(all_arms, rater.study.random_seed, rater.number)


def choose_crossover_items(candidate_items: Sequence[CandidateItem], protocol: StudyProtocol) -> list[CandidateItem]:
    """Return both versions of each case of a crossover. Raises PlanError if there are too few."""
    imported = [found for found in candidate_items if found.origin.get("imported_id")]
    drawable = index_drawable_items(candidate_items)
    requested = {(source.cast, source.perturbation): source.count for source in protocol.sources}
    candidates = [found.candidate for found in drawable.values()]
    if protocol.conditions == "screens":
        chosen = draw_items.choose_items(candidates, requested, protocol.seed, versions=1)
        return [
            found._replace(candidate=found.candidate._replace(key=f"{found.candidate.key}/screen {n}"), screen=n)
            for found in [*(drawable[candidate.key] for candidate in chosen), *imported]
            for n in (1, 2)
        ]
    first = _map_counterparts(protocol)
    cases = draw_items.choose_cases(candidates, first, {source: requested[source] for source in first}, protocol.seed)
    versions = [version for case in cases for version in case]
    # Together they would make a case of three versions, which two sessions cannot separate.
    if {found.candidate.pair for found in imported} & {version.pair for version in versions}:
        raise PlanError(
            "an imported item is a version of a step that was drawn from the pool: give the imported item another pair"
        )
    return [drawable[version.key] for version in versions] + imported


def count_identical_cases(candidate_items: Sequence[CandidateItem], protocol: StudyProtocol) -> IdenticalCases:
    """Return how many cases of a crossover of sources have identical outcomes, and how many cases there are."""
    if protocol.conditions != "sources":
        return IdenticalCases()
    candidates = (found.candidate for found in index_drawable_items(candidate_items).values())
    return draw_items.count_identical_cases(candidates, _map_counterparts(protocol))


def describe_identical_cases(alike: IdenticalCases) -> str:
    """Return a sentence on how many cases are left out and what is then compared; "" if none is left out."""
    if not alike.cases:
        return ""
    return (
        f"{alike.cases} of {format_count(alike.of, 'case')} left out, on which both sources gave the identical outcome; what is "
        "compared are cases on which they differ"
    )


def index_drawable_items(candidate_items: Sequence[CandidateItem]) -> dict[str, CandidateItem]:
    """Return, by key, the pool items that may be drawn: those whose content differs from that of every imported item."""
    imported_contents = {found.candidate.content for found in candidate_items if found.origin.get("imported_id")}
    drawable = (f for f in candidate_items if not f.origin.get("imported_id"))
    return {f.candidate.key: f for f in drawable if f.candidate.content not in imported_contents}


def map_conditions(protocol: StudyProtocol, chosen: Sequence[CandidateItem]) -> dict[str, int]:
    """Return the condition, 1 or 2, of each of these items by its key."""
    rows = [(found.candidate.key, found.screen, *found.candidate.source) for found in chosen]
    if protocol.conditions not in ("screens", "twins"):
        casts = _list_casts(protocol, (cast for _, _, cast, _ in rows))
        if len(casts) != 2:
            names = ", ".join(casts)
            raise PlanError(f"the items come from {len(casts)} sources ({names}); a crossover compares exactly 2")
    return _map_rows(protocol, rows)


def load_conditions(study: Study) -> dict[str, int]:
    """Return the condition, 1 or 2, of every frozen item of a crossover study, by its key."""
    rows = ItemSource.objects.filter(item__study=study).order_by("item_id")
    columns = rows.values_list("item_id", "item__screen", "label", "perturbation")
    return _map_rows(load_study_protocol(study), [(str(item), n, cast, kind) for item, n, cast, kind in columns])


def _map_rows(protocol: StudyProtocol, rows: Sequence[tuple[str, int, str, str]]) -> dict[str, int]:
    """Return the condition of each row of (key, screen, cast, perturbation) by its key."""
    if protocol.conditions == "screens":
        return {key: screen for key, screen, _, _ in rows}
    if protocol.conditions == "twins":
        return {key: 1 if perturbation == "none" else 2 for key, _, _, perturbation in rows}
    casts = _list_casts(protocol, (cast for _, _, cast, _ in rows))
    return {key: 1 + casts.index(cast) for key, _, cast, _ in rows}


def map_arms(protocol: StudyProtocol) -> Mapping[int, Arm]:
    """Return the display arm of each condition: its own if screens are compared, else the same for both."""
    all_arms = list_arms_of(protocol)
    return {1: all_arms[0], 2: all_arms[-1]}


def _list_casts(protocol: StudyProtocol, labels: Iterable[str]) -> list[str]:
    """Return the casts that a crossover of sources compares; the cast of condition 1 comes first."""
    # The document's order first, then imported labels: dict keeps the first of each.
    return list(dict.fromkeys([*(source.cast for source in protocol.sources), *sorted(labels)]))


def name_conditions(protocol: StudyProtocol, sources: Iterable[Source]) -> tuple[str, str]:
    """Return the names of conditions 1 and 2 in results. `sources` include those of imported items."""
    item_sources = sorted(set(sources))
    if protocol.conditions == "screens":
        # Worded as in the contrasts of display arms.
        texts = []
        for arm in map_arms(protocol).values():
            context = "yes" if arm.with_context else "no"
            texts.append((f"layout: {arm.layout}", f"goal and earlier steps: {context}", f"marks: {arm.marks}"))
        differences = [pair for pair in zip(*texts, strict=True) if pair[0] != pair[1]]
        return ", ".join(first for first, _ in differences), ", ".join(second for _, second in differences)
    if protocol.conditions == "twins":
        errors = {perturbation for _, perturbation in item_sources} - {"none"}
        return "original", f"twin, {errors.pop()} error" if len(errors) == 1 else "twin"
    casts = _list_casts(protocol, (label for label, _ in item_sources))
    first_name, second_name, *_ = [*casts, "condition 1", "condition 2"]
    return first_name, second_name


def describe_cases(study: Study) -> str:
    """Return a sentence on which cases the two conditions are compared; "" if on all cases."""
    if not is_crossover(study) or load_study_protocol(study).conditions != "sources":
        return ""
    return (
        "Conditions are compared on steps on which the two sources differ: steps with identical outcomes of both are left "
        "out of a crossover of sources."
    )


def load_condition_names(study: Study) -> tuple[str, str]:
    """Return the names of the two conditions of a crossover study; two empty names for any other study."""
    if not is_crossover(study):
        return "", ""
    rows = ItemSource.objects.filter(item__study=study).order_by().values_list("label", "perturbation").distinct()
    return name_conditions(load_study_protocol(study), rows)


def load_conditions_by_code(study: Study) -> dict[str, int]:
    """Return the condition, 1 or 2, of every frozen item by its code; {} for a study that is not a crossover."""
    if not is_crossover(study):
        return {}
    codes = dict(study.items.values_list("pk", "code"))
    return {str(codes[int(key)]): number for key, number in load_conditions(study).items()}


def compute_session_2_start(rater: Rater) -> datetime | None:
    """Return when session 2 may start; None while session 1 is not finished, and for simulated raters."""
    if rater.simulated:
        return None
    session_1 = Assignment.objects.filter(rater=rater, session=1)
    if session_1.filter(WAITING).exists():
        return None
    ratings = Rating.objects.filter(assignment__in=session_1).order_by()
    last_answer = ratings.aggregate(last=Max(Greatest("submitted_at", Coalesce("revised_at", "submitted_at"))))["last"]
    return last_answer + timedelta(days=load_study_protocol(rater.study).washout_days) if last_answer else None


def is_too_early(assignment: Assignment, now: datetime) -> bool:
    """Return whether this item must not yet be shown or answered, because the washout has not ended."""
    # An item that was opened in time may be answered: it was already seen.
    if assignment.session == 1 or assignment.opened_at is not None or assignment.rater.simulated:
        return False
    rater = assignment.rater
    if Assignment.objects.filter(WAITING, rater=rater, session=1).exists():
        return True
    session_start = compute_session_2_start(rater)
    return session_start is not None and now < session_start


def has_begun_session_2(rater: Rater) -> bool:
    """Return whether the rater was shown an item of session 2: then answers of session 1 are closed."""
    return Assignment.objects.filter(rater=rater, session=2, opened_at__isnull=False).exists()


def _map_counterparts(protocol: StudyProtocol) -> dict[Source, Source]:
    """Return for each source of condition 2 the source of its counterpart in condition 1."""
    casts = list(dict.fromkeys(source.cast for source in protocol.sources))
    if protocol.conditions == "sources":
        return {(s.cast, s.perturbation): (casts[0], s.perturbation) for s in protocol.sources if s.cast != casts[0]}
    originals = [source.cast for source in protocol.sources if source.perturbation == "none"]
    return {(s.cast, s.perturbation): (originals[0], "none") for s in protocol.sources if s.perturbation != "none"}
