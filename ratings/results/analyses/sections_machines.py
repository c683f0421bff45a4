"""Raters beside machines: Table 1, the matrices, how often each says yes, and who catches which error."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from ratings.models import EVIDENCE, TRANSITION, ItemSource, Study
from ratings.protocol.reference import WITHOUT_ERROR
from ratings.raters.machines import machines
from ratings.results.analyses.reading import ItemFacts, Reading
from ratings.results.analyses.sections_detection import EVERYBODY, reference_note
from ratings.results.analyses.tables import Cells, Json, table
from ratings.results.paper_values import PaperValue, find_paper_value, find_published_fraction, pair_with_reasons
from ratings.stats import Ratings, human_model, proportions
from ratings.stats.estimates import LEVEL
from ratings.stats.table import Ints

AT_MOST = 12  # raters and machines in one matrix; with more, machines alone
STORED_CHECKER = "WetBench checker"
_Z = float(norm.ppf((1 + LEVEL) / 2))
# What our raters are called where a number of the paper's people stands beside them.
OURS = {"simulated": "simulated raters", "people and simulated": "people and simulated raters"}
GENUINE, OTHER = "none", "other"  # planted errors: none; wrong without one, as imported items can be
Verdicts = dict[str, int]
Group = tuple[str, str]  # type and kind of error, "" for the whole type


class Machine(NamedTuple):
    """`verdicts`: item code -> 1 or 0, of the items it judged; `undecided`: items it was asked and gave no verdict on."""

    name: str
    kind: str  # machine, checker or classifier
    verdicts: Verdicts
    undecided: int


def found(study: Study, read: Reading) -> list[Machine]:
    """Everybody who is no person and judged items of this reading, in three queries: classifiers as they stood when the
    study opened, machine raters, and the checker's stored findings unless it rates here itself."""
    rated = {fact.code for fact in read.items}
    said = machines.rows(study)
    raters = [_rater(label, named, said[label], rated) for label, named in machines.names(study).items()]
    every = [*_classifiers(read.items), *raters]
    if study.kind == TRANSITION and not any(one.kind == "checker" for one in every):
        every.append(_stored(study, rated))
    return [one for one in every if one.verdicts]


def _rater(label: str, named: machines.Named, said: Mapping[Any, machines.Answer], rated: set[str]) -> Machine:
    own = [(str(code), answer) for code, answer in said.items() if str(code) in rated]
    verdicts = {code: int(answer.verdict) for code, answer in own if answer.verdict is not None}
    return Machine(f"{label}, {named.name}", named.kind, dict(sorted(verdicts.items())), len(own) - len(verdicts))


def _classifiers(items: Sequence[ItemFacts]) -> Iterator[Machine]:
    for name in sorted({name for fact in items for name in fact.verdicts}):
        verdicts = {fact.code: int(fact.verdicts[name]) for fact in items if name in fact.verdicts}
        yield Machine(name, "classifier", verdicts, 0)


def _stored(study: Study, rated: set[str]) -> Machine:
    """What the checker found in the steps as they were played or planted; it knows more of them than raters are shown."""
    rows = ItemSource.objects.filter(item__study=study, transition__isnull=False).order_by("item__code")
    columns = "item__code", "twin", "twin__findings__verdict", "transition__findings__verdict"
    verdicts, undecided = {}, 0
    for code, twin, of_twin, of_original in rows.values_list(*columns).iterator(chunk_size=2000):
        verdict = of_twin if twin else of_original
        if str(code) in rated and verdict in ("ok", "error"):
            verdicts[str(code)] = int(verdict == "ok")
        undecided += str(code) in rated and verdict == "undecidable"
    return Machine(STORED_CHECKER, "checker", verdicts, undecided)


def tables(read: Reading, every: Sequence[Machine], min_overlap: int, seed: int, resamples: int) -> dict[str, Json]:
    """human_model, agreement_matrix, conditional_matrix, fractions and misses; without machines, misses of raters alone."""
    raters = [one for one in every if one.name != STORED_CHECKER]
    misses = [[*row, read.table.reference_name] for row in _misses(read, every)]
    return {
        "human_model": _human_model(read, raters, min_overlap, seed, resamples),
        **_matrices(read.table, raters),
        "fractions": table("fractions", _fractions(read, raters)),
        "misses": table(
            "misses", misses, notes=[*_undecided(every), *_who_checks(every), *reference_note(read, bool(misses))]
        ),
    }


def _who(read: Reading) -> dict[str, str]:
    """Each rater whose verdicts count, as the raters' table has them: person, simulated or imported."""
    columns = read.columns
    found = {}
    for at in np.unique(columns.rater[columns.judged]):
        own = columns.judged & (columns.rater == at)
        simulated = "simulated" if columns.simulated[own].any() else "person"
        found[read.raters[at]] = "imported" if columns.imported[own].any() else simulated
    return found


def _together(who: Iterable[str]) -> str:
    """What raters of these kinds are called together; who gave what was collected elsewhere is not said to be simulated."""
    made = {one == "simulated" for one in who}
    return "people and simulated" if len(made) > 1 else "simulated" if True in made else "people"


def _human_model(read: Reading, every: Sequence[Machine], min_overlap: int, seed: int, resamples: int) -> Json:
    ratings = read.table
    if not every or not len(ratings):
        return table("human_model", ())
    models = {one.name: one.verdicts for one in every}
    kinds = {one.name: one.kind for one in every}
    rows = human_model.standings(ratings, models, kinds=kinds, min_overlap=min_overlap, seed=seed, resamples=resamples)
    n = len(human_model.common_items(ratings, models))
    said = f"On the {n:,} items that two raters or more and every machine judged."
    people = _together(_who(read).values())
    published = _published_agreement(rows)
    cells = [[*_standing(row, people), *paper] for row, paper in zip(rows, published, strict=True)]
    notes = [f"Published values of people are beside {OURS[people]}."] if people != "people" else []
    return table("human_model", cells, said, notes if any(row[0] is not None for row in published) else [])


def _standing(row: human_model.Standing, people: str) -> Cells:
    n = row.kappa.n
    return [
        row.who, people if row.kind == "people" else row.kind, row.agreement.value, row.agreement.low, row.agreement.high,
        row.kappa.value, row.kappa.low, row.kappa.high, row.difference.value, row.difference.low, row.difference.high,
        n["items"], n["raters"], n["ratings"], row.kappa.reason,
    ]  # fmt: skip


def _published_agreement(rows: Sequence[human_model.Standing]) -> list[tuple[float | None, float | None, str]]:
    """Return the paper's agreement and kappa (Table 1) of each classifier, by its model's name, and of people.

    With them the reason where there is none. Who the raters of this study are does not change what the paper has.
    """
    agreement, kappa = (
        pair_with_reasons(_find_agreement(row, name) for row in rows) for name in ("agreement", "kappa")
    )
    return [(one, two, why or also) for (one, why), (two, also) in zip(agreement, kappa, strict=True)]


def _find_agreement(row: human_model.Standing, name: str) -> PaperValue | None:
    if row.who == human_model.PEOPLE:
        return find_paper_value(f"avg_pairwise_{name}", EVIDENCE, role="human")
    if row.kind != "classifier":
        return None
    return find_paper_value(f"human_model_{name}", EVIDENCE, model=row.who, role="evidence_classifier")


def _matrices(ratings: Ratings, every: Sequence[Machine]) -> dict[str, Json]:
    models = {one.name: one.verdicts for one in every}
    people = len(np.unique(ratings.rater))
    whole = bool(models) and people + len(models) <= AT_MOST
    shown = {**models, **human_model.of_raters(ratings)} if whole else models
    notes = [] if whole or not models else [f"Machines alone: with {people:,} raters the matrix could not be read."]
    return {
        name: table(name, (list(cell) for cell in cells), notes=notes)
        for name, cells in (
            ("agreement_matrix", human_model.agreement_matrix(shown)),
            ("conditional_matrix", human_model.conditional_matrix(shown)),
        )
    }


def _fractions(read: Reading, every: Sequence[Machine]) -> Iterator[Cells]:
    """All raters, each machine, and of two machines or more what most of them and all of them say."""
    if not every or not len(read.table):
        return
    main = proportions.rates(read.table, by=None)[0]
    together = _together(_who(read).values())
    rows: list[Cells] = [[EVERYBODY, together, main.value, main.n["yes"], main.n["ratings"], main.low, main.high]]
    models = {one.name: one.verdicts for one in every}
    kinds = {one.name: one.kind for one in every}
    if len(models) > 1:
        models |= {human_model.MAJORITY: human_model.majority(models).verdicts}
        models |= {human_model.CONSENSUS: human_model.consensus({one.name: one.verdicts for one in every})}
    for one in human_model.fractions(models):
        kind = kinds.get(one.who, "ensemble")
        rows.append([one.who, kind, one.share, one.k, one.n, one.low, one.high])
    names = [one.name for one in every]
    published = pair_with_reasons(find_published_fraction(str(row[0]), str(row[1]), names) for row in rows)
    yield from ([*row, *paper] for row, paper in zip(rows, published, strict=True))


def _misses(read: Reading, every: Sequence[Machine]) -> Iterator[Cells]:
    """All raters together, each rater, each machine: errors by type and by kind, and false alarms on unperturbed items."""
    groups = {fact.code: _groups(fact) for fact in read.items if fact.reference}
    names = sorted({group for own in groups.values() for group in own})
    if all(error == GENUINE for error, _ in names):
        return
    yield from _of_raters(read.table.where(read.table.reference >= 0), _who(read), groups, names)
    for one in every:
        judged = Counter(group for code in one.verdicts for group in groups.get(code, ()))
        called = Counter(
            group for code, verdict in one.verdicts.items() if not verdict for group in groups.get(code, ())
        )
        for group in names:
            if n := judged[group]:
                share = called[group] / n
                yield [one.name, one.kind, *group, called[group], n, share, *proportions.wilson(share, n, _Z)]


def _groups(fact: ItemFacts) -> tuple[Group, ...]:
    """Of which type the item's error is, and of which kind; an unperturbed item has none."""
    if fact.reference in WITHOUT_ERROR:
        return ((GENUINE, ""),)
    error = fact.error if fact.error != "none" else OTHER
    return ((error, ""), (error, fact.error_kind)) if fact.error_kind else ((error, ""),)


def _of_raters(
    own: Ratings, who: Mapping[str, str], groups: Mapping[str, tuple[Group, ...]], names: Sequence[Group]
) -> Iterator[Cells]:
    """All raters together with items and raters as clusters, then each rater."""
    called = replace(own, verdict=1 - own.verdict)
    raters = {own.raters[at]: called.where(own.rater == at) for at in np.unique(own.rater)}
    everybody = [(EVERYBODY, _together(who[label] for label in raters), called)]
    everybody += [(label, who[label], part) for label, part in raters.items()]
    place = {group: at for at, group in enumerate(names)}
    by_type = np.array([place[groups[code][0]] if code in groups else -1 for code in own.items], dtype=np.int64)
    by_kind = [place[groups[code][1]] if len(groups.get(code, ())) > 1 else -1 for code in own.items]
    for label, kind, part in everybody:
        lines: dict[int, Cells] = {}
        for of_item in (by_type, np.array(by_kind, dtype=np.int64)):
            lines |= _shares(part, of_item, len(names))
        yield from ([label, kind, *group, *lines[at]] for at, group in enumerate(names) if at in lines)


def _shares(part: Ratings, of_item: Ints, n_groups: int) -> dict[int, Cells]:
    """caught, n, recall, low, high of each group of these ratings."""
    codes = of_item[part.item]
    own = part.where(codes >= 0)
    own = replace(own, factors={"group": (codes[codes >= 0], tuple(str(at) for at in range(n_groups)))})
    rows = [row for row in proportions.rates(own, by="group") if "group" in row.args and "interval" not in row.args]
    return {int(row.args["group"]): [row.n["yes"], row.n["ratings"], row.value, row.low, row.high] for row in rows}


def _undecided(every: Sequence[Machine]) -> list[str]:
    return [
        f"{one.name} gave no verdict on {one.undecided:,} of {one.undecided + len(one.verdicts):,} items; they are in no share."
        for one in every
        if one.undecided
    ]


def _who_checks(every: Sequence[Machine]) -> list[str]:
    if not any(one.name == STORED_CHECKER for one in every):
        return []
    return [
        f"{STORED_CHECKER}: what it found in the steps as they were played, amounts that raters are not shown included. "
        "Ordered as a machine rater it reads what they see."
    ]
