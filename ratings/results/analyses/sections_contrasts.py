"""Contrasts of a study: between sources, simulators, error types, experiments, arms, verdicts, raters and machines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from ratings.results.analyses.reading import Reading
from ratings.results.analyses.sections_machines import Machine
from ratings.results.analyses.tables import Json, table
from ratings.stats.contrasts import (
    AREA,
    CORRECT,
    D_PRIME,
    OTHERS,
    RATE,
    SENSITIVITY,
    SPECIFICITY,
    Contrast,
    Pool,
    contrast_detection,
    contrast_known,
    contrast_machine,
    contrast_machines,
    contrast_rater,
    contrast_rates,
    contrast_verdicts,
    gather_pool,
    restrict,
)
from ratings.stats.differences import adjust_by_holm
from ratings.stats.table import NOT_STATED, REFERENCES, Bools

SOURCES, SIMULATORS, ERRORS = "sources", "simulators", "error types"
EXPERIMENTS, ARMS, CONDITIONS = "experiments", "display arms", "conditions"
BY_DESIGN = (CONDITIONS, SOURCES, SIMULATORS, ERRORS, ARMS)  # the families of find_by_design
VERDICTS = "first and final verdict"
MOST_MACHINES = 12  # every two of them; each of more against the raters alone
MOST_NAMED = 12  # machines in a note
MOST_RATERS = 100  # each against the others; a contrast of each of more would say little after Holm's correction

NUMBERED = ("condition 1", "condition 2")  # where nobody says what they are called

_ERROR_NAMES = {"none": "unperturbed", "obvious": "obvious error", "subtle": "subtle error"}


def tables(
    read: Reading, machines: Sequence[Machine], conditions: Mapping[str, int], names: tuple[str, str] = NUMBERED
) -> dict[str, Json]:
    """Return the table of contrasts.

    `conditions`: 1 or 2 by item code in a crossover study, empty in any other; `names`: what the two are called.
    """
    if not len(read.table) or not read.table.binary:
        return {"contrasts": table("contrasts", ())}
    pool = gather_pool(read.table)
    rows = [
        *find_by_design(pool, conditions, names),
        *_verdicts(read, pool),
        *_machines(pool, machines),
        *_raters(pool),
        *_experiments(pool),
    ]
    return {"contrasts": arrange(rows, read.table.reference_name, note_left_out(pool, machines))}


def find_by_design(pool: Pool, conditions: Mapping[str, int], names: tuple[str, str] = NUMBERED) -> Iterator[Contrast]:
    """Yield the contrasts that a plan foretells: of conditions, sources, simulators, error types and display arms."""
    yield from _conditions(pool, conditions, names)
    yield from _sources(pool)
    yield from _simulators(pool)
    yield from _errors(pool)
    yield from _arms(pool)


def _conditions(pool: Pool, conditions: Mapping[str, int], names: tuple[str, str]) -> Iterator[Contrast]:
    """Yield the contrasts of a crossover study's two conditions."""
    if not conditions:
        return
    of_item = np.array([conditions.get(code, 0) for code in pool.table.items], dtype=np.int64)
    masks = [of_item[pool.table.item] == number for number in (1, 2)]
    yield contrast_rates(CONDITIONS, names, pool, masks[0], masks[1])
    yield from contrast_known(CONDITIONS, names, pool, (masks[0], masks[1]))
    yield from contrast_detection(CONDITIONS, names, restrict(pool, masks[0]), restrict(pool, masks[1]))


def _sources(pool: Pool) -> Iterator[Contrast]:
    """Yield the difference in rate of every two sources whose items have the same planted error, or none."""
    labels = list(np.unique(pool.label))
    for error in _errors_of(pool):
        for names in combinations(labels, 2):
            masks = [(pool.label == name) & (pool.error == error) for name in names]
            if masks[0].any() and masks[1].any():
                word = _ERROR_NAMES.get(error, error)
                called = [name if error == "none" else f"{name}, {word}" for name in names]
                yield contrast_rates(SOURCES, (called[0], called[1]), pool, masks[0], masks[1])


def _simulators(pool: Pool) -> Iterator[Contrast]:
    """Yield how much better errors are told in the outcomes of one simulator than in those of another.

    Of each error type that both have; of all together they would differ as well where one has more obvious errors. The
    difference in sensitivity is that of the sources' rates with its sign turned.
    """
    planted = pool.table.reference == 0
    for first, second in combinations([str(name) for name in np.unique(pool.label)], 2):
        for error in _errors_of(pool):
            masks = [pool.label == name for name in (first, second)]
            if not all((mask & planted & (pool.error == error)).any() for mask in masks):
                continue
            word = _ERROR_NAMES.get(error, error)
            pools = [
                restrict(pool, mask & ((pool.table.reference == 1) | (planted & (pool.error == error))))
                for mask in masks
            ]
            yield from contrast_detection(SIMULATORS, (f"{first}, {word}", f"{second}, {word}"), pools[0], pools[1])


def _errors_of(pool: Pool) -> list[str]:
    order = list(_ERROR_NAMES)
    return sorted(
        (str(name) for name in np.unique(pool.error)), key=lambda name: order.index(name) if name in order else 9
    )


def _errors(pool: Pool) -> Iterator[Contrast]:
    """Yield the contrasts of every two error types, of all simulators together and of each; twins of a step are paired."""
    labels = [str(name) for name in np.unique(pool.label)]
    every: list[tuple[str, Bools]] = [("", np.ones(len(pool.table), dtype=np.bool_))]
    every += [(name, pool.label == name) for name in labels] if len(labels) > 1 else []
    for whose, own in every:
        kinds = [error for error in _errors_of(pool) if (own & (pool.error == error)).any()]
        for first, second in combinations(kinds, 2):
            called = [_ERROR_NAMES.get(error, error) for error in (first, second)]
            names = (f"{whose}, {called[0]}" if whose else called[0], f"{whose}, {called[1]}" if whose else called[1])
            masks = [own & (pool.error == error) for error in (first, second)]
            yield contrast_rates(ERRORS, names, pool, masks[0], masks[1])
            if all((pool.table.reference[mask] == 0).all() for mask in masks):
                genuine = own & (pool.table.reference == 1)
                pools = [restrict(pool, genuine | mask) for mask in masks]
                # The difference in rate is that in sensitivity with its sign turned.
                yield from contrast_detection(ERRORS, names, pools[0], pools[1])


def _arms(pool: Pool) -> Iterator[Contrast]:
    """Yield the contrasts of every two ways in which items were shown."""
    for factor, title in (("layout", "layout"), ("context", "goal and earlier steps"), ("marks", "marks")):
        codes, names = pool.table.factors[factor]
        shown = [at for at in np.unique(codes) if names[at]]
        for first, second in combinations(shown, 2):
            called = (f"{title}: {names[first]}", f"{title}: {names[second]}")
            masks = codes == first, codes == second
            yield contrast_rates(ARMS, called, pool, *masks)
            yield from contrast_known(ARMS, called, pool, masks)
            yield from contrast_detection(ARMS, called, restrict(pool, masks[0]), restrict(pool, masks[1]))


def _verdicts(read: Reading, pool: Pool) -> Iterator[Contrast]:
    """Yield how the final verdict differs from the first of the same rating, where a first one was asked for."""
    first = read.columns.first_verdict[read.columns.judged]
    both = first >= 0
    if not both.any():
        return
    yield from contrast_verdicts(VERDICTS, ("final verdict", "first verdict"), pool, both, first.astype(np.float64))


def _machines(pool: Pool, machines: Sequence[Machine]) -> Iterator[Contrast]:
    """Yield each machine against the raters, and every two machines."""
    for machine in machines:
        yield from contrast_machine(pool, machine.name, machine.verdicts)
    for first, second in combinations(machines[:MOST_MACHINES], 2):
        yield from contrast_machines(pool, (first.name, second.name), first.verdicts, second.verdicts)


def _experiments(pool: Pool) -> Iterator[Contrast]:
    """Yield each experiment against all others."""
    codes, names = pool.table.factors["experiment"]
    named = np.array([bool(name) for name in names], dtype=np.bool_)[codes]
    present = np.unique(codes[named])
    if len(present) < 2:
        return
    for at in present:
        masks = named & (codes == at), named & (codes != at)
        yield contrast_rates(EXPERIMENTS, (names[at], OTHERS), pool, *masks)
        # Correct verdicts would compare shares of planted errors as well, which differ between experiments.
        quantities = [SENSITIVITY, SPECIFICITY]
        yield from contrast_known(EXPERIMENTS, (names[at], OTHERS), pool, masks, quantities=quantities)


def _raters(pool: Pool) -> Iterator[Contrast]:
    present = np.unique(pool.table.rater)
    if 2 <= len(present) <= MOST_RATERS:
        for at in present:
            yield from contrast_rater(pool, int(at))


def note_left_out(pool: Pool, machines: Sequence[Machine]) -> list[str]:
    """Return which contrasts of raters and machines are left out for their number, each as a note."""
    raters, notes = len(np.unique(pool.table.rater)), []
    if raters > MOST_RATERS:
        notes.append(
            f"No rater is compared with the others: {raters:,} raters are more than {MOST_RATERS}. Each one's numbers are in the "
            "tables of raters."
        )
    if len(machines) > MOST_MACHINES:
        rest = ", ".join(machine.name for machine in machines[MOST_MACHINES:][:MOST_NAMED])
        more = len(machines) - MOST_MACHINES - MOST_NAMED
        notes.append(
            f"Every two of the first {MOST_MACHINES} of {len(machines):,} machines are compared; the others are compared with "
            f"the raters alone: {rest}{f' and {more:,} more' if more > 0 else ''}."
        )
    return notes


def arrange(rows: Iterable[Contrast], reference_name: str, more: Sequence[str] = ()) -> Json:
    """Return the table of these contrasts with Holm's p-values of each family and quantity. `more`: notes on them."""
    every = list(rows)
    adjusted: dict[int, float | None] = {}
    for key in dict.fromkeys((row.family, row.quantity) for row in every):
        own = [at for at, row in enumerate(every) if (row.family, row.quantity) == key]
        adjusted |= dict(zip(own, adjust_by_holm([every[at].p for at in own]), strict=True))
    lines = [row.cells(adjusted[at], reference_name) for at, row in enumerate(every)]
    notes = [
        "Each difference is the first less the second. Holm's p is adjusted for all contrasts of the same family and quantity."
    ]
    if any(row.quantity != RATE for row in every) and reference_name not in NOT_STATED:
        notes.append(
            f"Reference of {CORRECT}, {SENSITIVITY}, {SPECIFICITY}, {AREA} and {D_PRIME}: {REFERENCES[reference_name]}."
        )
    return table("contrasts", lines, summarise(every, adjusted), [*notes, *more] if lines else ())


def summarise(rows: Sequence[Contrast], adjusted: Mapping[int, float | None]) -> str:
    """Return how many contrasts there are, and how many have Holm's p below .05. `adjusted`: Holm's p by the row's number."""
    clear = sum(1 for p in adjusted.values() if p is not None and p < 0.05)
    tested = sum(1 for row in rows if row.p is not None)
    if not rows:
        return ""
    return f"{len(rows):,} contrasts, {tested:,} with an interval; Holm's p is below .05 in {clear:,}."
