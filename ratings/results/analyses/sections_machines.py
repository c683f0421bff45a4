"""The tables of raters and machines: the paper's Table 1, agreement matrices, shares of yes, and detected errors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from ratings.models import EVIDENCE, TRANSITION, ItemSource, Study
from ratings.protocol.reference import WITHOUT_ERROR
from ratings.raters import model_raters
from ratings.results.analyses.rating_columns import AnalysisData, ItemFacts
from ratings.results.analyses.sections_raters import EVERYBODY, describe_reference
from ratings.results.analyses.tables import Cells, Json, build_table, builds
from ratings.results.paper_values import PaperValue, find_paper_value, find_published_fraction, pair_with_reasons
from ratings.stats import human_model, proportions
from ratings.stats.estimates import LEVEL
from ratings.stats.ratings_table import Ints, Ratings

AT_MOST = 12  # most raters and machines in one matrix; with more, it shows machines only
STORED_CHECKER = "WetBench checker"
_Z = float(norm.ppf((1 + LEVEL) / 2))
# What to call our raters beside a number of the paper's raters.
RATER_GROUPS = {"simulated": "simulated raters", "people and simulated": "people and simulated raters"}
GENUINE, OTHER = "none", "other"  # types of error: none; an error that was not planted, which imported items can have
Verdicts = dict[str, int]
# What an item belongs to: here, type and kind of error; the kind "" stands for all errors of the type.
Group = tuple[str, ...]


class Machine(NamedTuple):
    """A rater that is not a person.

    `verdicts`: verdict 1 or 0 by item code, for the items that it judged. `undecided`: number of items on which it was asked
    for a verdict and gave none.
    """

    name: str
    kind: str  # machine, checker or classifier
    verdicts: Verdicts
    undecided: int


def find_machines(study: Study, data: AnalysisData) -> list[Machine]:
    """Return the classifiers, model raters and stored findings of the checker that judged items, in three queries."""
    rated_codes = {fact.code for fact in data.items}
    answers = model_raters.load_answers(study)
    all_machines = []
    for name in sorted({name for fact in data.items for name in fact.verdicts}):
        verdicts = {fact.code: int(fact.verdicts[name]) for fact in data.items if name in fact.verdicts}
        all_machines.append(Machine(name, "classifier", verdicts, 0))
    for label, (name, kind) in model_raters.list_names(study).items():
        rated = {str(code): answer.verdict for code, answer in answers[label].items() if str(code) in rated_codes}
        verdicts = {code: int(verdict) for code, verdict in sorted(rated.items()) if verdict is not None}
        all_machines.append(Machine(f"{label}, {name}", kind, verdicts, len(rated) - len(verdicts)))
    # If the checker also rates in the study, from what raters see, its stored findings are left out, because they would be a
    # second row of the checker.
    if study.kind == TRANSITION and not any(machine.kind == "checker" for machine in all_machines):
        all_machines.append(_load_checker_findings(study, rated_codes))
    return [machine for machine in all_machines if machine.verdicts]


def _load_checker_findings(study: Study, rated_codes: set[str]) -> Machine:
    """Return the checker with its stored findings on the recorded steps and twins as its verdicts."""
    # The recorded steps include amounts that raters are not shown, so these findings use more information than raters have.
    rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by("item__code")
    columns = "item__code", "twin", "twin__findings__verdict", "transition__findings__verdict"
    verdicts, undecided = {}, 0
    for code, twin, twin_verdict, original_verdict in rows.values_list(*columns).iterator(chunk_size=2000):
        verdict = twin_verdict if twin else original_verdict
        if str(code) in rated_codes and verdict in ("ok", "error"):
            verdicts[str(code)] = int(verdict == "ok")
        undecided += str(code) in rated_codes and verdict == "undecidable"
    return Machine(STORED_CHECKER, "checker", verdicts, undecided)


@builds("human_model", "agreement_matrix", "conditional_matrix", "fractions", "misses")
def build_machine_tables(
    data: AnalysisData, machines_of_study: Sequence[Machine], min_overlap: int, seed: int, resamples: int
) -> dict[str, Json]:
    """Return the tables of machines; without machines, only misses has rows: those of the raters."""
    judges = [machine for machine in machines_of_study if machine.name != STORED_CHECKER]
    misses = [[*row, data.table.reference_name] for row in _iter_miss_rows(data, machines_of_study)]
    notes = [
        f"{machine.name} gave no verdict on {machine.undecided:,} of {machine.undecided + len(machine.verdicts):,} items; they are in no share."
        for machine in machines_of_study
        if machine.undecided
    ]
    if any(machine.name == STORED_CHECKER for machine in machines_of_study):
        notes.append(
            f"{STORED_CHECKER}: its findings in the recorded steps, including amounts that raters are not shown. "
            "As a model rater it uses only what raters see."
        )
    return {
        "human_model": _build_human_model_table(data, judges, min_overlap, seed, resamples),
        **_build_matrices(data.table, judges),
        "fractions": build_table("fractions", _iter_fraction_rows(data, judges)),
        "misses": build_table("misses", misses, notes=[*notes, *describe_reference(data, bool(misses))]),
    }


def _find_rater_kinds(data: AnalysisData) -> dict[str, str]:
    """Return the kind of each rater whose verdicts count, as in the raters' table: person, simulated or imported."""
    columns = data.columns
    kinds = {}
    for rater in np.unique(columns.rater[columns.is_judged]):
        judged_by_rater = columns.is_judged & (columns.rater == rater)
        simulated = "simulated" if columns.simulated[judged_by_rater].any() else "person"
        kinds[data.raters[rater]] = "imported" if columns.imported[judged_by_rater].any() else simulated
    return kinds


def _name_rater_group(kinds: Iterable[str]) -> str:
    """Return the name of a group of raters of these kinds."""
    # Imported raters count as people, because ratings collected elsewhere are not known to be simulated.
    is_simulated = {kind == "simulated" for kind in kinds}
    return "people and simulated" if len(is_simulated) > 1 else "simulated" if True in is_simulated else "people"


def _build_human_model_table(
    data: AnalysisData, machines_of_study: Sequence[Machine], min_overlap: int, seed: int, resamples: int
) -> Json:
    ratings = data.table
    if not machines_of_study or not len(ratings):
        return build_table("human_model", ())
    models = {machine.name: machine.verdicts for machine in machines_of_study}
    kinds = {machine.name: machine.kind for machine in machines_of_study}
    options = {"min_overlap": min_overlap, "seed": seed, "resamples": resamples}
    comparisons = human_model.compare_models(ratings, models, kinds=kinds, **options)
    # The comparison does not use all items of the study, so the summary states their number.
    n = len(human_model.find_common_items(ratings, models))
    summary = f"On the {n:,} items judged by two or more raters and by every machine."
    group = _name_rater_group(_find_rater_kinds(data).values())
    # The paper's agreement and kappa (Table 1), and the reason if one is missing.
    agreements, kappas = (
        pair_with_reasons(_find_paper_agreement(row, name) for row in comparisons) for name in ("agreement", "kappa")
    )
    rows = []
    for row, (agreement, reason), (kappa, kappa_reason) in zip(comparisons, agreements, kappas, strict=True):
        n_used = row.kappa.n
        rows.append([
            row.name, group if row.kind == "people" else row.kind, row.agreement.value, row.agreement.low, row.agreement.high,
            row.kappa.value, row.kappa.low, row.kappa.high, row.difference.value, row.difference.low, row.difference.high,
            n_used["items"], n_used["raters"], n_used["ratings"], row.kappa.reason, agreement, kappa, reason or kappa_reason,
        ])  # fmt: skip
    is_noted = group != "people" and any(value is not None for value, _ in agreements)
    notes = [f"Published values for people are shown beside {RATER_GROUPS[group]}."] if is_noted else []
    return build_table("human_model", rows, summary, notes)


def _find_paper_agreement(row: human_model.ModelComparison, name: str) -> PaperValue | None:
    # The paper has values for people, and for classifiers with the name of one of its models. The values for people are
    # also shown if our raters are not people; a note then states what they are.
    if row.name == human_model.PEOPLE:
        return find_paper_value(f"avg_pairwise_{name}", EVIDENCE, role="human")
    if row.kind != "classifier":
        return None
    return find_paper_value(f"human_model_{name}", EVIDENCE, model=row.name, role="evidence_classifier")


def _build_matrices(ratings: Ratings, machines_of_study: Sequence[Machine]) -> dict[str, Json]:
    models = {machine.name: machine.verdicts for machine in machines_of_study}
    n_raters = len(np.unique(ratings.rater))
    with_raters = bool(models) and n_raters + len(models) <= AT_MOST
    judges = {**models, **human_model.collect_rater_verdicts(ratings)} if with_raters else models
    notes = []
    if models and not with_raters:
        notes = [f"Machines only: with {n_raters:,} raters the matrix would be too large to read."]
    matrices = {
        "agreement_matrix": human_model.build_agreement_matrix(judges),
        "conditional_matrix": human_model.build_conditional_matrix(judges),
    }
    return {name: build_table(name, cells, notes=notes) for name, cells in matrices.items()}


def _iter_fraction_rows(data: AnalysisData, machines_of_study: Sequence[Machine]) -> Iterator[Cells]:
    """Yield the share of yes of all raters together, of each machine, and of the machines' majority and consensus."""
    if not machines_of_study or not len(data.table):
        return
    pooled = proportions.estimate_rates(data.table, by=None)[0]
    group = _name_rater_group(_find_rater_kinds(data).values())
    rows: list[list[Any]] = [
        [EVERYBODY, group, pooled.value, pooled.n["yes"], pooled.n["ratings"], pooled.low, pooled.high]
    ]
    models = {machine.name: machine.verdicts for machine in machines_of_study}
    kinds = {machine.name: machine.kind for machine in machines_of_study}
    ensembles = {}
    if len(models) > 1:
        ensembles[human_model.MAJORITY] = human_model.compute_majority(models).verdicts
        ensembles[human_model.CONSENSUS] = human_model.compute_consensus(models)
    for name, rate in human_model.estimate_fractions({**models, **ensembles}).items():
        rows.append([name, kinds.get(name, "ensemble"), rate.value, rate.k, rate.n, rate.low, rate.high])
    paper_cells = pair_with_reasons(find_published_fraction(row[0], row[1], list(models)) for row in rows)
    yield from ([*row, *paper] for row, paper in zip(rows, paper_cells, strict=True))


def _iter_miss_rows(data: AnalysisData, machines_of_study: Sequence[Machine]) -> Iterator[Cells]:
    """Yield the shares of errors reported and of false alarms: of all raters, of each rater, of each machine."""
    groups = {fact.code: _find_error_groups(fact) for fact in data.items if fact.reference}
    # If no item has an error, there is nothing to detect.
    if any(group[0] != GENUINE for item_groups in groups.values() for group in item_groups):
        yield from iter_reported_shares(data, machines_of_study, groups)


def iter_reported_shares(
    data: AnalysisData, machines_of_study: Sequence[Machine], groups: Mapping[str, tuple[Group, ...]]
) -> Iterator[Cells]:
    """Yield who, kind, the parts of a group, and the share of its items reported as errors with its interval.

    The rows are of all raters, of each rater, and of each machine. `groups`: at most two groups of each item, by its code.
    """
    names = sorted({group for item_groups in groups.values() for group in item_groups})
    with_reference = data.table.select_ratings(data.table.reference >= 0)
    yield from _iter_rater_miss_rows(with_reference, _find_rater_kinds(data), groups, names)
    for machine in machines_of_study:
        n_judged = Counter(group for code in machine.verdicts for group in groups.get(code, ()))
        reported = [code for code, verdict in machine.verdicts.items() if not verdict]
        n_reported = Counter(group for code in reported for group in groups.get(code, ()))
        for group in names:
            if n := n_judged[group]:
                share = n_reported[group] / n
                interval = proportions.compute_wilson_interval(share, n, _Z)
                yield [machine.name, machine.kind, *group, n_reported[group], n, share, *interval]


def _find_error_groups(fact: ItemFacts) -> tuple[Group, ...]:
    """Return the groups to which an item belongs: its type of error and, if known, its kind of error."""
    if fact.reference in WITHOUT_ERROR:
        return ((GENUINE, ""),)
    error = fact.error if fact.error != "none" else OTHER
    return ((error, ""), (error, fact.error_kind)) if fact.error_kind else ((error, ""),)


def _iter_rater_miss_rows(
    ratings: Ratings, kinds: Mapping[str, str], groups: Mapping[str, tuple[Group, ...]], names: Sequence[Group]
) -> Iterator[Cells]:
    """Yield the rows of all raters together (items and raters as clusters), then those of each rater."""
    # Verdict 0 reports an error, so with inverted verdicts the rate of 1 is the share of errors reported.
    reported = replace(ratings, verdict=1 - ratings.verdict)
    raters = {ratings.raters[code]: reported.select_ratings(ratings.rater == code) for code in np.unique(ratings.rater)}
    judges = [(EVERYBODY, _name_rater_group(kinds[label] for label in raters), reported)]
    judges += [(label, kinds[label], part) for label, part in raters.items()]
    index_of = {group: i for i, group in enumerate(names)}
    # An item belongs to a type and maybe to a kind of error, and a factor assigns each item to one group only, so the shares
    # are computed twice.
    of_items = [[index_of[group] for group in groups.get(code, ())] + [-1, -1] for code in ratings.items]
    for label, kind, part in judges:
        shares_by_group: dict[int, Cells] = {}
        for i in range(2):
            of_item = np.array([of_groups[i] for of_groups in of_items], np.int64)
            shares_by_group |= _compute_group_shares(part, of_item, len(names))
        yield from ([label, kind, *group, *shares_by_group[i]] for i, group in enumerate(names) if i in shares_by_group)


def _compute_group_shares(ratings: Ratings, of_item: Ints, n_groups: int) -> dict[int, Cells]:
    """Return the cells caught, n, recall, low and high of each group. `of_item`: group of each item, or -1."""
    codes = of_item[ratings.item]
    in_groups = ratings.select_ratings(codes >= 0)
    in_groups = replace(in_groups, factors={"group": (codes[codes >= 0], tuple(str(i) for i in range(n_groups)))})
    return {
        int(row.args["group"]): [row.n["yes"], row.n["ratings"], row.value, row.low, row.high]
        for row in proportions.estimate_rates(in_groups, by="group")
        if "group" in row.args and "interval" not in row.args
    }
