"""L20: particles for each cell (multiplicity of infection, vector genomes or minicells per cell) follow from both numbers."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import claims, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label

_PARTICLE = (
    r"(?:mini-?cells?|mcs?|particles?|phages?|virions?|virus(?:es)?|vg|vp|gc|tu|pfu|iu|beads?|vectors?(?: genomes?)?|genomes?|vesicles?|evs?|liposomes?|nanoparticles?|lv|aav|"
    r"transducing units?|infectious units?|copies|minizellen|partikel|particulas?|minicelulas?|particules?)"
)
_CELL = r"(?:cells?|hela|hek\w*|cho|neurons?|astrocytes?|macrophages?|hosts?|host cells?|target cells?|zellen?|celulas?|cellules?)"
_NUM = r"([0-9]{1,9}(?:\.[0-9]{1,6})?(?:e[+-]?[0-9]{1,2})?)"
# "200 minicells per cell", "1.0e5 vg/cell".
_NUMBER_FIRST = re.compile(
    rf"(?<![\w.:/]){_NUM}\s?(?:[a-z]+ )?{_PARTICLE}\s?(?:/|per|for each|for every|on each|to each|to one|a|pro|por|par)\s?(?:[a-z0-9]+ )?{_CELL}\b",
    re.IGNORECASE,
)
# "MC:cell 250:1", "minicells per cell: 200", "minicell_to_cell_ratio: 25 : 1", "MOI 5".
_NAME_FIRST = re.compile(
    rf"(?:\b{_PARTICLE}s?\s?(?:/|:|per|to|zu|pro|por|par|je)\s?(?:[a-z0-9]+ )?{_CELL}(?: ratio| verhaltnis| number)?|\b(?:moi|multiplicity(?: of (?:infection|transduction))?))\b(?: of)?\s?[:=≈(]{{0,2}}\s?{_NUM}(?:\s?(?::|to)\s?1\b)?(?!\s?(?::|/)\s?[2-9])",
    re.IGNORECASE,
)
_RATIO_FIRST = re.compile(rf"(?<![\w.:/]){_NUM}\s?:\s?1\b\s?\(?{_PARTICLE}s?\s?(?::|to|/|per)\s?{_CELL}", re.IGNORECASE)
_PLANNED = compile_label(
    r"\btarget(?:ed)?\b(?! cell)|\bplanned\b|\bnominal\b|\baim\w*\b|\bdesired\b|\bintended\b|\bwanted\b|\bmax\w*\b|\bassum\w*"
)
_PARTICLE_LABEL = compile_label(rf"\b{_PARTICLE}\b|\bdose\b|\binfectious\b")
_CELL_LABEL = compile_label(rf"\b{_CELL}\b|\bneurons\b")
_NOT_TOTAL = compile_label(
    r"\bper\b(?! (?:well|dish|flask|plate|coverslip|tube|vial|chamber)\b)|/|\bmoi\b|\bratio\b|\bpassage\b|\bviab\w*|\bdensity\b|\bdoubling|\bline\b|\btiter\b|\btitre\b|\bsize\b|\bdiameter\b|:"
)
_MILLILITRE = Decimal(1000)  # µL
_MARGIN = Decimal("0.12")  # share: rounding of three numbers


def check_multiplicity(transition: Transition) -> Findings:
    """L20: yield an error if the particles for each cell that a step writes fit no pair of particles and cells of the record."""
    observed = [claim for _, found in claims.list_observed(transition) for claim in found]
    notes = " ; ".join(seen.full_text[:1500] for seen in transition.observations)
    for view in transition.usable_outputs:
        if transition.parameters.has_named(view):
            continue
        own = claims.list_claims(transition, [view])
        texts = [
            view.name,
            *(
                f"{leaf.path_text} {leaf.key} {leaf.value_text} {leaf.unit}".replace("_", " ")
                for leaf in view.leaves
                if leaf.value_text not in transition.input_texts
            ),
        ]
        stated = {number for text in texts for number in _read_multiplicities(text)} or (
            set(_read_multiplicities(notes)) if len(transition.usable_outputs) <= 2 else set()
        )
        if not stated:
            continue
        before = transition.find_input(view)
        earlier = claims.list_claims(transition, [before] if before is not None else list(transition.limited_inputs))
        particles = _list_totals([*own, *observed], _PARTICLE_LABEL, {"vg", "tu"}) | set(
            _iter_moved(transition, before)
        )
        cells = _list_totals(own, _CELL_LABEL, set(), _PARTICLE_LABEL) or _list_totals(
            [*earlier, *observed], _CELL_LABEL, set(), _PARTICLE_LABEL
        )
        densities = [claim for claim in own if claim.dimension == "number_density" and claim.value > 0]
        possible = {
            first.value / second.value
            for first in densities
            for second in densities
            if first.matches(_PARTICLE_LABEL) and second.matches(_CELL_LABEL) and not second.matches(_PARTICLE_LABEL)
        }
        possible |= {first / second for first in particles for second in cells if second > 0 and first != second}
        for number in stated:
            yield Decided("L20", quantity=bool(possible))
            if possible and not any(abs(value - number) <= _MARGIN * max(value, number) for value in possible):
                nearest = min(possible, key=lambda value: abs((value / number).ln()))
                expected, got = f"{nearest:.3g}", f"{number:.3g}"
                yield error_finding(
                    "L20", view.name, expected, got, f"{view.name} has {expected} particles for each cell, not {got}"
                )


def _read_multiplicities(text: str) -> Iterator[Decimal]:
    """Yield the numbers of particles for each cell that a text states as what was done."""
    for pattern in (_NUMBER_FIRST, _NAME_FIRST, _RATIO_FIRST):
        for match in pattern.finditer(text[:1500]):
            if not _PLANNED.search(text[max(0, match.start() - 25) : match.end() + 20]) and Decimal(match[1]) > 0:
                yield Decimal(match[1])


def _list_totals(
    found: Iterable[Claim], name: re.Pattern[str], units_found: set[str], other: re.Pattern[str] | None = None
) -> set[Decimal]:
    """Return the numbers of whole cells or particles that claims state, not those per volume or per cell."""
    return {
        claim.value
        for claim in found
        if claim.dimension in ("", "count")
        and claim.value >= 10
        and (
            claim.matches(name)
            or any(re.search(rf"\b{re.escape(unit)}\b", claim.text, re.IGNORECASE) for unit in units_found)
        )
        and not _NOT_TOTAL.search(claim.label)
        and not (other is not None and claim.matches(other))
    }


def _iter_moved(transition: Transition, destination: MaterialView | None) -> Iterator[Decimal]:
    """Yield the numbers of particles that a moved volume contains, by every density that its source states."""
    moved = transition.parameters.find_moved_volume()
    for view in transition.inputs:
        if view is destination or view.is_empty_vessel:
            continue
        stated = [*claims.list_claims(transition, [view]), *claims.read_text(view.name)]
        densities = {claim.value for claim in stated if claim.dimension == "number_density"}
        is_whole = moved is None and transition.family == words.COMBINE
        volume = moved.value if moved is not None else view.liquid_volume if is_whole else None
        for density in densities if volume else ():
            yield density * (volume or 0) / _MILLILITRE
