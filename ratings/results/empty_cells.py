"""Forecast, before a study opens, which results it will lack: analyse simulated answers to its plan.

The reasons for missing results come from the code that also computes the results page, so the warnings are consistent with
it. Answers are simulated several times with planning values (a rehearsal). A result that is missing in every rehearsal is
expected to be missing, and one that is missing in some rehearsals may be missing. Nothing is stored.
"""

import random
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ratings.blinding.material_rows import MISSING
from ratings.models import EVIDENCE, TRANSITION, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.plan_types import FIRST, PlannedAssignment, PlannedItem
from ratings.protocol.reference import reference_to_label
from ratings.raters import simulated_raters
from ratings.raters.simulated_raters import Skill
from ratings.results.analyses import rating_columns, sections_contrasts, sections_raters
from ratings.results.analyses.document import MIN_OVERLAP
from ratings.results.rating_rows import RatingRow
from ratings.stats import Estimate, dawid_skene, summary, summary_text, u_statistic
from ratings.stats.contrasts import build_rating_pool
from ratings.stats.estimates import FEW_ITEMS, build_estimate
from ratings.studies import designs, freeze, lifecycle
from ratings.studies.freeze import OpeningPreview

# Names of statistics in the results of ratings.stats.
DETECTION = (
    "auc_confidence_correct", "type2_auc", "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "mrmc_u_auc",
    "sensitivity", "specificity",
    "dprime", "criterion_c",
)  # fmt: skip
AGREEMENT = (
    "avg_pairwise_agreement", "avg_pairwise_kappa", "avg_pairwise_kappa_weighted", "kappa_max", "fleiss_kappa",
    "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "brennan_prediger", "avg_pairwise_weighted_kappa",
    "percent_agreement", "cohen_kappa", "weighted_kappa",
)  # fmt: skip
FEWEST_RATERS = 3  # least number of raters for an interval for new raters


class PlanFacts(NamedTuple):
    """The sizes and settings of a plan.

    Numbers of items: `unperturbed` (known to be without an error), `planted` (known to have an error), `unstated` (imported
    without a reference), and `located` (with an error at a known location). `shared`: the smallest and the largest number of
    items that two raters share.
    """

    kind: str  # "transition" or "evidence"
    design: str
    items: int
    unperturbed: int
    planted: int
    unstated: int
    located: int
    raters: int
    per_item: int
    shared: tuple[int, int]
    repeats: float
    marks: bool


def suggest_change(stat: str, scope: Mapping[str, str], missing: str, reason: str, facts: PlanFacts) -> str:
    """Return the change that would provide a missing "number" or "interval", as a sentence without a full stop."""
    of_source = " of each source" if "source" in scope else ""
    more_items = f"ask for more items{of_source}"
    if stat.startswith("retest"):
        if facts.design == "crossover":
            return "use a study of another design: a crossover study repeats no item"
        if not facts.repeats:
            return 'repeat some items ("Repeat items (%)"; 10% is enough)'
        return "repeat more items, or ask for more items"
    # This is checked before missing classes of items, because no answer may be wrong although both classes are present.
    if "no rating is incorrect" in reason:
        return f"{more_items}: at the planning values a rater may give no wrong answer"
    # If a class of items is missing altogether, this explains a missing result better than the number of items does.
    if stat in DETECTION and (suggestion := _suggest_classes(stat, facts)):
        return suggestion
    if missing == "interval" and "new raters" in scope.values() and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters"
    if stat == "contrast":
        return _suggest_for_contrast(reason, facts)
    if stat in AGREEMENT:
        return _suggest_for_agreement(more_items, scope, reason, facts)
    if stat == "localisation":
        return _suggest_for_localisation(facts)
    if stat.startswith("dawid_skene"):
        return f"ask for at least {FEWEST_RATERS} raters and {FEWEST_RATERS} ratings per item"
    if missing == "interval" and facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters, or for more items{of_source}"
    return f"{more_items} or more ratings per item"


def _suggest_for_localisation(facts: PlanFacts) -> str:
    if not facts.planted:
        return _suggest_classes("sensitivity", facts)
    if not facts.marks:
        return "let raters mark the rows that are wrong"
    if not facts.located:
        return "state the location of the errors: when vetting twins, or in the column `field` of imported items"
    return "ask for more items with a planted error at a known location"


def _suggest_for_contrast(reason: str, facts: PlanFacts) -> str:
    if "fewer than three raters" in reason:
        return f"ask for at least {FEWEST_RATERS} raters on each side, or let the same raters rate both"
    if facts.raters < FEWEST_RATERS:
        return f"ask for at least {FEWEST_RATERS} raters who rate both sides"
    if "both unperturbed and planted" in reason:
        return _suggest_classes("contrast", facts) or "include unperturbed and planted items on both sides"
    return "ask for more items on each side, or for more raters who rate both"


def _suggest_classes(stat: str, facts: PlanFacts) -> str:
    """Return how to add the class of items that this statistic lacks; "" if the plan has all classes that it needs."""
    lacks_unperturbed = stat != "sensitivity" and not facts.unperturbed
    lacks_planted = stat != "specificity" and not facts.planted
    if not lacks_unperturbed and not lacks_planted:
        return ""
    if facts.kind == "evidence":  # only a declared truth can be the reference of a record
        if facts.unstated:
            return "state whether the evidence of the imported records is sufficient (column `truth`)"
        if not facts.unperturbed and not facts.planted:
            return "no change helps: evidence records have no planted errors; import items whose reference is known"
        return f"also import records that are declared {'sufficient' if lacks_unperturbed else 'insufficient'}"
    if facts.unstated:
        return "state the perturbation of the imported items (column `perturbation`) or their truth (column `truth`)"
    return "include unperturbed items" if lacks_unperturbed else "include items with planted errors"


def _suggest_for_agreement(more_items: str, scope: Mapping[str, str], reason: str, facts: PlanFacts) -> str:
    if facts.per_item < 2:
        return "ask for at least 2 ratings per item"
    if "rarer verdict" in reason or "one and the same" in reason:
        return f"{more_items}: at this share of errors the rarer verdict is too rare"
    # If raters share no items at all, the suggestion differs from that for too few shared items.
    if facts.shared[1] == 0 or "no item was rated by both" in reason:
        return "ask for more ratings per item or fewer raters, so that raters share items"
    if "in common" in reason or FEW_ITEMS in reason or facts.shared[1] < int(scope.get("min_overlap", "1")):
        enough = f"so that two raters share {MIN_OVERLAP}"
        # If every rater already rates every item, more ratings per item are impossible, and only more items help.
        if facts.per_item >= facts.raters:
            return f"{more_items}, {enough}"
        return f"ask for more ratings per item, fewer raters or {more_items.removeprefix('ask for ')}, {enough}"
    return f"{more_items} or more ratings per item"


REHEARSALS = 20
RESAMPLES = 50  # sufficient to show whether an interval is withheld; too few to report an interval
MANY_RATINGS, FEWER_REHEARSALS = 3000, 5
MOST_RATINGS = 20_000  # larger plans are not rehearsed, because that would take too long for a page
SKILL = Skill(obvious=0.9, subtle=0.6)  # planning values; others are the defaults of simulated raters
# Beginnings of reasons that no change of the design can remove: the interval is in another result, or does not exist.
_BY_CONSTRUCTION = (
    "beside ", "ratings of one item and of one rater go together", "unweighted mean of", "items have a known", dawid_skene.LABEL,
    u_statistic.COMPONENT_REASON,
)  # fmt: skip
# Parts of reasons, as ratings.stats words them, that depend on the answers and not on the design alone.
_BY_ANSWERS = (
    "one and the same", "no rating is incorrect", "no rating is correct", "has one rating only", "have the same value",
    "rarer verdict", "same value, so", "there is no variance", "the estimate of the variance", "without exception", "too few of some outcomes", "undefined in", "undefined for",
)  # fmt: skip


class ResultKind(NamedTuple):
    """Results of a statistic and scope (arguments without raters), for each "rater" or "pair" (`of`), or one."""

    stat: str
    scope: tuple[tuple[str, str], ...]
    of: str


class MissingCells(NamedTuple):
    """The number of results of a kind, and the reasons of those without a number and of those without an interval.

    `name` and `where`: the statistic and its scope, in words.
    """

    n: int
    without_number: tuple[str, ...]
    without_interval: tuple[str, ...]
    name: str
    where: str


class EmptyResult(NamedTuple):
    """A warning that results of a kind will or may lack their number or interval.

    `missing`: "number" or "interval". `sure`: whether the design alone causes this, regardless of the answers. `times` and
    `of_times`: number of rehearsals in which it was missing, and of all rehearsals. `where`: the scope in words, such as
    "each rater" or "some raters". `change`: a change of the plan that would provide the missing number or interval.
    """

    key: ResultKind
    name: str
    where: str
    missing: str
    sure: bool
    times: int
    of_times: int
    reason: str
    change: str

    @property
    def is_expected(self) -> bool:
        """Return whether a number or interval was missing in every rehearsal, but not because of the design alone."""
        return not self.sure and self.times == self.of_times

    def to_dict(self) -> dict[str, Any]:
        """Return the warning in the form of the plan's JSON."""
        return {
            "result": self.key.stat, "name": self.name, "of": self.where, "missing": self.missing,
            "by": "design" if self.sure else "expected answers" if self.is_expected else "answers", "rehearsals": self.times, "of_rehearsals": self.of_times,
            "reason": self.reason, "change": self.change,
        }  # fmt: skip


class SuggestedChange(NamedTuple):
    """A change for several results. `often`: how often the most affected of them was incomplete, such as "5 of 20"."""

    change: str
    missing: str
    results: tuple[str, ...]
    where: tuple[str, ...]
    often: str
    reasons: tuple[str, ...]


class Forecast(NamedTuple):
    """All warnings about a plan. `skipped`: why the plan was not rehearsed, or ""."""

    warnings: tuple[EmptyResult, ...]
    skipped: str = ""

    @property
    def by_design(self) -> list[SuggestedChange]:
        """Return the changes for results that will be incomplete regardless of the answers."""
        return _group_by_change(warning for warning in self.warnings if warning.sure)

    @property
    def by_expected(self) -> list[SuggestedChange]:
        """Return the changes for results that were incomplete in all rehearsals because of the expected answers."""
        return _group_by_change(warning for warning in self.warnings if warning.is_expected)

    @property
    def by_answers(self) -> list[SuggestedChange]:
        """Return the changes for results that were incomplete in some rehearsals but not in all."""
        return _group_by_change(warning for warning in self.warnings if not warning.sure and not warning.is_expected)

    def to_dict(self) -> dict[str, Any]:
        """Return all warnings in the form of the plan's JSON, without grouping them by change."""
        return {"empty": [warning.to_dict() for warning in self.warnings], "not_rehearsed": self.skipped}


def _group_by_change(warnings: Iterable[EmptyResult]) -> list[SuggestedChange]:
    """Return the suggested changes: first for missing numbers, then for missing intervals; those with most warnings first."""
    groups: dict[tuple[str, str], list[EmptyResult]] = defaultdict(list)
    for warning in warnings:
        groups[warning.missing, warning.change].append(warning)
    changes = []
    for missing, change in sorted(groups, key=lambda key: (key[0] != "number", -len(groups[key]))):
        same_change = groups[missing, change]
        most = max(same_change, key=lambda warning: warning.times / warning.of_times)
        cells = zip(*((warning.name, warning.where, warning.reason) for warning in same_change), strict=True)
        names, where, reasons = (tuple(dict.fromkeys(values)) for values in cells)
        changes.append(SuggestedChange(change, missing, names, where, f"{most.times} of {most.of_times}", reasons))
    return changes


def forecast_empty_results(study: Study, raters: int | None = None) -> Forecast:
    """Return the forecast for a draft as if it were opened now. Raises PlanError and ProtocolError, as opening does."""
    protocol = lifecycle.parse_protocol(study.protocol)
    return forecast_plan(protocol, freeze.preview_opening(protocol, study, raters))


def describe_plan(study: Study, raters: int | None = None) -> dict[str, Any]:
    """Return the plan of a draft as JSON: its sizes, the number of items of each rater, and the warnings of the forecast.

    Not the sources of each rater's items: opening makes the same plan, and sources are sealed then.
    """
    protocol = lifecycle.parse_protocol(study.protocol)
    plan = freeze.preview_opening(protocol, study, raters)
    lines = [{"rater": f"R{row.rater + 1:02}", "items": row.total, "repeats": row.repeats} for row in plan.matrix.rows]
    sizes = {"items": plan.items, "raters": plan.raters, "ratings": plan.ratings, "shared": list(plan.matrix.shared)}
    sizes |= {"identical_cases": plan.alike.cases, "cases": plan.alike.of} if protocol.is_crossover else {}
    return {"study": study.slug, **sizes, "lines": lines, **forecast_plan(protocol, plan).to_dict()}


def forecast_plan(protocol: StudyProtocol, plan: OpeningPreview) -> Forecast:
    """Return the forecast of the results that this plan would lack."""
    # A pool study assigns items only when raters arrive, so its plan has no assignments; all raters get equal shares.
    balanced = protocol.model_copy(update={"design": "balanced"})
    assignments = plan.assignments or tuple(freeze.plan_assignments(balanced, protocol.seed, plan.planned, plan.raters))
    if len(assignments) > MOST_RATINGS:
        message = f"The plan has {len(assignments):,} ratings; plans of up to {MOST_RATINGS:,} are rehearsed."
        return Forecast((), message)
    # Large plans have fewer rehearsals to keep the page fast; their results also vary less between rehearsals.
    times = REHEARSALS if len(assignments) <= MANY_RATINGS else FEWER_REHEARSALS
    rehearsed = [collect_cells(_rehearse_results(protocol, plan, assignments, seed)) for seed in range(times)]
    facts = _collect_facts(protocol, plan, assignments)
    warnings: list[EmptyResult] = []
    # A kind of result can be absent from a rehearsal in which no answer led to it.
    for key in dict.fromkeys(key for cells_of in rehearsed for key in cells_of):
        warnings += _iter_warnings(key, times, [cells_of[key] for cells_of in rehearsed if key in cells_of], facts)
    return Forecast(tuple(warnings))


def collect_cells(results: Sequence[Estimate]) -> dict[ResultKind, MissingCells]:
    """Return a summary of the results by kind. Results of all single raters, and of all pairs, are one kind each."""
    groups: dict[ResultKind, list[Estimate]] = defaultdict(list)
    for row in results:
        rater_or_pair = "pair" if "raters" in row.args else "rater" if "rater" in row.args else ""
        scope = tuple(sorted((name, str(value)) for name, value in _drop_raters(row.args).items()))
        groups[ResultKind(row.stat, scope, rater_or_pair)].append(row)
    return {key: _summarise_cells(key, rows) for key, rows in groups.items()}


def _drop_raters(args: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name not in ("rater", "raters")}


def _summarise_cells(key: ResultKind, rows: Sequence[Estimate]) -> MissingCells:
    not_by_construction = [row for row in rows if not row.reason.startswith(_BY_CONSTRUCTION)]
    line = summary_text.describe_estimate(rows[0]._replace(args=_drop_raters(rows[0].args)))
    rater_label = {"rater": "each rater", "pair": "each pair of raters"}.get(key.of, "")
    remainder = line.scope.removeprefix("all together").lstrip(", ") if rater_label else line.scope
    return MissingCells(
        len(rows),
        tuple(row.reason for row in not_by_construction if row.value is None),
        tuple(row.reason for row in not_by_construction if row.value is not None and row.low is None),
        line.name,
        ", ".join(filter(None, [rater_label, remainder])),
    )


def is_by_design(n: int, reasons: Sequence[str]) -> bool:
    """Return whether all `n` results of a kind are missing, and none of them because of the raters' answers."""
    return len(reasons) == n and not any(phrase in reason for phrase in _BY_ANSWERS for reason in reasons)


def _iter_warnings(
    key: ResultKind, times: int, rehearsed: Sequence[MissingCells], facts: PlanFacts
) -> Iterator[EmptyResult]:
    for missing in ("number", "interval"):
        reasons = [cell.without_number if missing == "number" else cell.without_interval for cell in rehearsed]
        if not any(reasons):
            continue
        cells = zip(rehearsed, reasons, strict=True)
        design_reasons = [cell_reasons for cell, cell_reasons in cells if is_by_design(cell.n, cell_reasons)]
        # A result without a number has no interval either.
        is_always_missing = all(
            len(cell.without_number) + (missing == "interval") * len(cell.without_interval) == cell.n
            for cell in rehearsed
        )
        sure = bool(design_reasons) and is_always_missing and len(rehearsed) == times
        reason = next(cell_reasons[0] for cell_reasons in [*design_reasons, *reasons] if cell_reasons)
        change = suggest_change(key.stat, dict(key.scope), missing, reason, facts)
        where = rehearsed[0].where
        if not is_always_missing:
            where = where.replace("each pair of raters", "some pairs of raters").replace("each rater", "some raters")
        yield EmptyResult(key, rehearsed[0].name, where, missing, sure, sum(map(bool, reasons)), times, reason, change)


def _rehearse_results(
    protocol: StudyProtocol, plan: OpeningPreview, assignments: Sequence[PlannedAssignment], seed: int
) -> list[Estimate]:
    data = rating_columns.build_analysis_data(_iter_simulated_rows(protocol, plan, assignments, seed))
    results = summary.compute_summary(data.table, data.repeats, resamples=RESAMPLES, min_overlap=MIN_OVERLAP)
    results += sections_raters.compute_localisation(data)
    # Contrasts need ratings. Without ratings, the results above already state why they are missing.
    if not len(data.table):
        return results
    conditions = {str(_compute_item_code(item.key)): item.condition for item in plan.planned if item.condition}
    names = designs.name_conditions(protocol, (item.source for item in plan.planned)) if conditions else ("", "")
    contrasts = sections_contrasts.iter_design_contrasts(build_rating_pool(data.table), conditions, names)
    return results + [build_contrast_result({**row._asdict(), "difference": row.difference}) for row in contrasts]


def build_contrast_result(row: Mapping[str, Any]) -> Estimate:
    """Return a contrast, given by the columns of its table, as an estimate."""
    args = {"family": row["family"], "quantity": row["quantity"], "sides": f"{row['first']} less {row['second']}"}
    interval = None if row["low"] is None or row["high"] is None else (row["low"], row["high"])
    return build_estimate("contrast", row["difference"], {}, args, interval, reason="" if interval else row["reason"])


def _iter_simulated_rows(
    protocol: StudyProtocol, plan: OpeningPreview, assignments: Sequence[PlannedAssignment], seed: int
) -> Iterator[RatingRow]:
    items = {item.key: item for item in plan.planned}
    codes = {key: _compute_item_code(key) for key in items}
    for assignment in assignments:
        origin = plan.origins.get(assignment.key, {})
        yield _simulate_row(protocol.kind, origin, items[assignment.key], assignment, codes[assignment.key], seed)


def _compute_item_code(key: str) -> uuid.UUID:
    # The code depends only on the key, so that the same plan always gives the same warnings.
    return uuid.UUID(int=random.Random(f"code/{key}").getrandbits(128))


def _simulate_row(
    kind: str, origin: Mapping[str, Any], item: PlannedItem, assignment: PlannedAssignment, code: uuid.UUID, seed: int
) -> RatingRow:
    label = f"R{assignment.rater + 1:02}"
    # A repeat and the second session have their own random streams, because a rater may answer differently the second time.
    is_first = (assignment.occasion, assignment.session) == (FIRST, 1)
    rater_seed = label if is_first else f"{label} {assignment.occasion} {assignment.session}"
    target, reference = origin.get("target", []), origin.get("reference", "")
    if kind == EVIDENCE:
        verdicts = origin.get("verdicts") or {}
        is_sufficient = bool(verdicts[min(verdicts)]) if verdicts else bool(origin.get("truth"))
        verdict, confidence = simulated_raters.judge_evidence(is_sufficient, item.key, label, SKILL, seed, rater_seed)
    else:
        error = simulated_raters.error_kind(item.source[1], reference)
        verdict, confidence = simulated_raters.judge_transition(error, item.key, label, SKILL, seed, rater_seed)
    marked: Sequence[str] = ()
    if not verdict and assignment.marks != "off":
        marked = simulated_raters.choose_marks(target, [MISSING], item.key, SKILL, seed, rater_seed)
    return RatingRow(
        item=code, rater=label, number=assignment.rater + 1, simulated=True, verdict=verdict, confidence=confidence,
        opened_at=_WHEN, submitted_at=_WHEN, seconds=60.0, position=assignment.position, occasion=assignment.occasion,
        session=assignment.session, released_at=None, surplus=False, layout=assignment.layout, layout_shown=assignment.layout,
        context=assignment.with_context, marks=assignment.marks, marked=list(marked), first_verdict=None, first_confidence=None, revision=1,
        active_seconds=60.0, first_verdict_seconds=None, changes=0, hand="", viewport="", guide_version=1,
        interface_version="", imported=False, note="", pair=uuid.uuid5(uuid.NAMESPACE_OID, item.pair),
        source=item.source[0], perturbation=item.source[1], truth=origin.get("truth"),
        reference=reference, experiment="", action="", verdicts=origin.get("verdicts", {}),
        target=target, error_kind=None, deviation=None,
    )  # fmt: skip


_WHEN = datetime(2026, 1, 1, tzinfo=UTC)  # no result depends on dates


def _collect_facts(
    protocol: StudyProtocol, plan: OpeningPreview, assignments: Sequence[PlannedAssignment]
) -> PlanFacts:
    origins = [plan.origins.get(item.key, {}) for item in plan.planned]
    references = [origin.get("reference", "") for origin in origins]
    return PlanFacts(
        kind="transition" if protocol.kind == TRANSITION else "evidence",
        design=protocol.design,
        items=len(plan.planned),
        unperturbed=sum(reference_to_label(reference) == 1 for reference in references),
        planted=sum(reference_to_label(reference) == 0 for reference in references),
        unstated=sum("imported_id" in origin and not origin["reference"] for origin in origins),
        located=sum(bool(origin.get("target")) for origin in origins),
        raters=len({assignment.rater for assignment in assignments}),
        per_item=protocol.ratings_per_item,
        shared=plan.matrix.shared,
        repeats=protocol.repeats,
        marks=any(marks != "off" for marks in protocol.display.marks),
    )
