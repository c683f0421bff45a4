"""L20: counts that add up: live and dead cells, gates, genotypes and animals, colonies, particles for each cell."""

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Findings, compare
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term

ZERO = Decimal(0)
_COUNTS = ("", "count")
_DENSITIES = ("number_density",)


# Words of a part of a tally (one corner square, one field, one run), of which there are several.
_PART = compile_label(
    r"\bsq(?:uare)?\s?[0-9]|\bfield\s?[0-9]|\bgrid\s?[0-9]|\bcorner\b|\bper (?:large |small |corner )?(?:sq\w*|field|grid|corner|quadrant|image)\b|\beach\b"
)
_LIVE, _DEAD = (
    compile_label(r"\b(?:live|living|viable|unstained|clear|bright|refractile|colou?rless)\b(?!.*\bdead\b)"),
    compile_label(r"\b(?:dead|nonviable|non-viable|stained|blue)\b(?!.*\b(?:live|trypan)\b)"),
)
_TOTAL = compile_label(r"\b(?:total|all|sum|overall)\b")
_VIABILITY = compile_label(r"\bviab(?:ility|le)\b")
_POSITIVE = compile_label(r"\b(?:pos(?:itive)?\b|gfp\s?pos|\w*(?:gfp|cherry|ha|rfp|yfp|gcamp|tag)\+)")
_NEGATIVE = compile_label(r"(?:\bneg(?:ative)?\b|\b\w*negative\b|\b(?:gfp|mcherry|rfp|yfp)-(?![a-z0-9]))")
_PARENT = compile_label(
    r"\bsinglets?\b|\b(?:live |viable |gated )?single(?:s|t cells| cells)?\b|\bgated cells\b|\bgate\b|\blive singles\b"
)
_CELLS = compile_label(r"\bcells?\b")
_COLONIES = compile_label(r"\bcolon(?:y|ies)\w*|\bcounted\b|\bcfu\b(?!\s?(?:/|per))")
_UNDILUTED = compile_label(
    r"\bundiluted\b|\boriginal\b|\bstock\b|\bneat\b|\binoculum\b|\bsuspension\b|\bculture\b|\bcfu\s?(?:/|per)|\bviable count\b|\btiter\b|\btitre\b"
)
_PER_PLATE = compile_label(r"\bcfu\s?(?:/|per)\s?m ?l\b|\bper ml\b|/ml")
_NOT_COLONIES = compile_label(
    r"\b(?:minimum|maximum|limit|countable|range|diameter|fluorescent|green|white|replicate|plate [0-9])\b|/ml|per ml"
)
# A genotype with both alleles: "WT/WT", "wt/nacre", "wt nac", "+/-".
_GENOTYPE = compile_label(
    r"\b(?:wt|wild[- ]?type|nac(?:re)?|mut(?:ant)?|het(?:erozygous|erozygote)?s?|hom(?:ozygous|o)?\w*|no ?call|undetermined|uncalled)\b"
)
_ANIMALS = compile_label(
    r"\bfish\b|\blarvae\b|\bembryos?\b|\banimals?\b|\bprogeny\b|\bsamples?\b|\bsiblings\b|\bn fish\b"
)
_NEITHER = compile_label(r"\b(?:none|no|not|neither|without|lack\w*|absent|rest|others?|unclear|undecided)\b")
_SQUARES = Decimal("1e4")  # 1/mL: a large square of a Neubauer chamber holds 0.1 µL


def check_tallies(transition: Transition) -> Findings:
    """L20: check counts and shares of every observation and of every material that the step wrote."""
    for seen, found in claims.list_observed(transition):
        yield from _check_viability(seen.path, found)
        yield from _check_categories(transition, seen.path, found)
        yield from _check_sentence(transition, seen, found)
        yield from _check_fractions(seen.path, seen.full_text[:1500])
        yield from _check_divided(seen.path, seen.full_text[:1500])
        for part in (seen.description, seen.value):
            yield from _check_lists(seen.path, part[:1500])
    gathered = [claim for _, found in claims.list_observed(transition) for claim in found]
    yield from _check_viability("the record", gathered)
    if transition.action == "CellCounter":
        yield from _check_chamber(transition, gathered)
    if transition.action == "FlowCytometry":
        yield from _check_events(gathered)
    if transition.action in ("QuantifyColonies", "ImageColonies", "VisualInspection"):
        yield from _check_colonies(transition, gathered)
    for view in transition.usable_outputs:
        found = claims.list_claims(transition, [view])
        yield from _check_viability(view.name, found)
        yield from _check_categories(transition, view.name, found)


_OF_COUNT = re.compile(
    r"\bof (?:the )?([0-9]{2,7}) [^0-9;.|]{1,40},? ([0-9]{1,7}) [^0-9;.|]{1,50}?\(?(?:=\s?)?([0-9]{1,3}(?:\.[0-9]{1,3})?)\s?%",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?<![\w.])([0-9]{1,4}) (?:wells?|lanes?|tubes?|plates?|fish|larvae|samples?|reactions?|vials?|embryos?|animals|colonies)\b[^0-9:;(%|]{0,25}[:(]\s*"
    r"((?:[0-9]{1,4} [A-Za-z][^0-9,;%|]{0,40}(?:,\s|;\s|\sand\s|\s\+\s|\)|$|\.\s?)){2,6})",
    re.IGNORECASE,
)


def _check_lists(subject: str, text: str) -> Findings:
    """Yield an error unless "24 wells: 16 samples, 6 standards and 2 blanks" adds up."""
    for number, listed in _LISTED.findall(text):
        parts = [Decimal(part) for part in re.findall(r"(?<![\w.])([0-9]{1,4}) ", listed)]
        total = sum(parts, ZERO)
        # A list that goes on behind the match is not complete.
        is_complete = listed.rstrip().endswith((")", ".")) or text.rstrip().endswith(listed.rstrip())
        if is_complete and not re.search(r"\beach\b|\bper\b|\bx\b|\breplicates?\b", listed):
            message = f"{' + '.join(str(part) for part in parts)} is {total}, not {number}"
            yield from compare(
                "L20", subject, Decimal(number), total, "count", message, ZERO, ZERO, shown=(number, str(total))
            )


_FRACTION = re.compile(
    r"(?<![\w.:/])([0-9]{1,7})\s?(?:/|of|out of)\s?(?:the )?([0-9]{1,7})\b(?!\s?(?:µ?m|n?)?[LMgx]\b)((?:(?!\b(?:and|but|while|whereas|with|at|in)\b)[^0-9%;|]){0,60}?)([0-9]{1,3}(?:\.[0-9]{1,3})?)\s?%"
)


# "48 offspring: 11 +/+, 25 +/-, 12 -/-", "16 clones: 12 correct, 3 with a mutation, 1 failed".
_DIVIDED = re.compile(
    r"(?<![\w.])([0-9]{1,4}) ([a-z]{3,15})\b[^0-9:;(%|]{0,20}:\s*((?:[0-9]{1,4} [^0-9,;%|:]{2,40}(?:,\s|;\s|\sand\s|$|\.\s?)){2,6})",
    re.IGNORECASE,
)


def _check_divided(subject: str, text: str) -> Findings:
    """Yield an error if the parts of "16 clones: 12 correct, 6 mutated, 1 failed" are more than the whole."""
    for number, thing, listed in _DIVIDED.findall(text):
        whole, pieces = Decimal(number), re.findall(r"(?<![\w.])([0-9]{1,4}) ([^\s,;]+)", listed)
        values = [Decimal(part) for part, _ in pieces]
        total = sum(values, ZERO)
        is_amount = any(units.find_dimension(word) not in ("", "count") for _, word in pieces) or units.find_dimension(
            thing
        )
        if is_amount or len(values) < 2 or total <= whole or max(values) > whole or _NO_CLASS.search(listed):
            continue
        # A class may be divided further, so any selection that makes up the whole is accepted.
        if not any(sum(chosen) == whole for size in range(1, len(values)) for chosen in combinations(values, size)):
            message = f"{' + '.join(str(value) for value in values)} is {total}, more than {whole}"
            yield from compare("L20", subject, whole, total, "count", message, above=ZERO, shown=(number, str(total)))


_NO_CLASS = compile_label(
    r"\b(?:each|per|of which|of these|including|incl|among|also|x|replicates?|days?|cycles?|times)\b"
)


def _check_fractions(subject: str, text: str) -> Findings:
    """Yield an error unless "18 of 24 wells (75 %)" has the share that its counts give."""
    for whole_text, part_text, share_text in _OF_COUNT.findall(text):
        part, whole, share = Decimal(part_text), Decimal(whole_text), Decimal(share_text)
        if 0 < part <= whole:
            expected, allowed = part / whole * 100, Decimal("0.6") + share / 50
            shown = f"{expected:.1f} %", f"{share} %"
            yield from compare(
                "L20",
                subject,
                expected,
                share,
                "ratio",
                f"{part} of {whole} are {shown[0]}, not {shown[1]}",
                allowed,
                allowed,
                shown=shown,
            )
    for match in _FRACTION.finditer(text):
        part, whole, share = Decimal(match[1]), Decimal(match[2]), Decimal(match[4])
        if 0 < part <= whole and whole >= 3 and not re.search(r"\b(?:not|mock|control|target|expected)\b", match[3]):
            expected = part / whole * 100
            allowed = Decimal("0.6") + share / 50
            shown = f"{expected:.1f} %", f"{share} %"
            message = f"{part} of {whole} are {shown[0]}, not {shown[1]}"
            yield from compare("L20", subject, expected, share, "ratio", message, allowed, allowed, shown=shown)


_SQUARE_COUNT = re.compile(
    r"\b([0-9]|one|two|three|four|five|eight|nine)\b (?:large |corner |outer |large corner )*(?:squares|quadrants|fields of 1 mm)",
    re.IGNORECASE,
)
_SQUARE_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "eight": 8, "nine": 9}


def _check_chamber(transition: Transition, gathered: list[Claim]) -> Findings:
    """Yield an error unless the density of live cells follows from the count in a Neubauer chamber."""
    texts = " ".join(seen.full_text for seen in transition.observations)[:3000]
    counts = {match.lower() for match in _SQUARE_COUNT.findall(texts)}
    leaves = [leaf for leaf in transition.parameters.leaves if {"dilution"} & leaf.word_set]
    dilution = next((number for leaf in leaves if (number := units.parse_number(leaf.value))), None)
    if len(counts) != 1 or dilution is None or "small" in texts.lower():
        return
    squares = counts.pop()
    number = Decimal(_SQUARE_WORDS[squares] if squares in _SQUARE_WORDS else int(squares))
    parts = [claim for claim in gathered if not claim.matches(_PART)]
    for pattern, name in ((_LIVE, "live"), (_DEAD, "dead")):
        count, density = find_term(parts, pattern, _COUNTS), find_term(parts, pattern, _DENSITIES)
        if count and density and count.value >= 10 and number:
            expected = count.value / number * _SQUARES * dilution
            text = f"{count.value} {name} cells in {number} squares, diluted {dilution}-fold, are"
            yield from compare_computed(
                "L20", "cell count", expected, (count,), density, text, tolerance=Decimal("0.05")
            )


def _check_events(gathered: list[Claim]) -> Findings:
    """Yield an error if a gate has more events than were recorded, or a subset more than its gate."""
    counts = [claim for claim in gathered if claim.dimension in _COUNTS and claim.value == int(claim.value)]
    events = find_term(counts, compile_label(r"^(?:all |total |recorded |acquired )?events?\b|\ball events\b"))
    parent = find_term([c for c in counts if not c.matches(_POSITIVE) and not c.matches(_NEGATIVE)], _PARENT)
    positive = find_term(counts, _POSITIVE)
    for part, whole in ((parent, events), (positive, parent or events)):
        if part and whole and part.value > 0 and whole.value > 0:
            text = f"{part.text} are more than the {whole.text} of which they are part"
            yield from compare(
                "L20",
                "gates",
                whole.value,
                part.value,
                "count",
                text,
                above=ZERO,
                shown=(str(whole.value), str(part.value)),
            )


def _check_viability(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless live and dead cells add up to the total, and viability is the share of live cells."""
    parts = [claim for claim in found if not claim.matches(_PART) and not claim.matches(_VIABILITY)]
    viability = find_term(found, compile_label(r"\bviability\b"), ("ratio",))
    for dimensions in (_COUNTS, _DENSITIES):
        live, dead = (find_term(parts, pattern, dimensions) for pattern in (_LIVE, _DEAD))
        if live is None or dead is None or live.value + dead.value <= 0:
            continue
        others = [claim for claim in parts if not claim.matches(_LIVE) and not claim.matches(_DEAD)]
        total = find_term(others, _TOTAL, dimensions)
        if total is not None:
            text = "live and dead cells add up to"
            yield from compare_computed("L20", subject, live.value + dead.value, (live, dead), total, text)
        if viability is not None:
            expected = live.value / (live.value + dead.value) * 100
            text, allowed = (
                f"{live.text} and {dead.text} are a viability of {expected:.1f} %, not {viability.value} %",
                Decimal(1) + viability.step,
            )
            shown = f"{expected:.1f} %", f"{viability.value} %"
            yield from compare("L20", subject, expected, viability.value, "ratio", text, allowed, allowed, shown=shown)


def _find_whole(transition: Transition, found: Sequence[Claim]) -> Claim | None:
    """Return the only number of animals or samples that a record or the materials before the step state, or None."""
    named = [
        c
        for c in found
        if c.dimension in _COUNTS and c.matches(_ANIMALS) and c.value == int(c.value) and not c.matches(_GENOTYPE)
    ]
    whole = find_term(named, _ANIMALS, _COUNTS)
    if whole is not None or named:
        return whole
    before = claims.list_claims(transition, transition.inputs)
    return find_term([claim for claim in before if claim.value == int(claim.value)], _ANIMALS, _COUNTS)


def _check_categories(transition: Transition, subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless the numbers of all genotypes add up to the number of animals."""
    parts = [
        c
        for c in found
        if c.dimension in _COUNTS and c.matches(_GENOTYPE) and c.value == int(c.value) and not c.matches(_TOTAL)
    ]
    labels = {claim.label for claim in parts}
    if not 3 <= len(parts) <= 6 or len(labels) != len(parts):
        return
    others = [claim for claim in found if claim not in parts]
    whole = find_term(others, _TOTAL, _COUNTS) or _find_whole(transition, others)
    if whole is not None and whole.value > 1:
        total = sum((claim.value for claim in parts), ZERO)
        # "all 96 larvae called: 25 WT, ...": a part may be the number of all of them.
        total = whole.value if total == 2 * whole.value and whole.value in {c.value for c in parts} else total
        yield from compare_computed(
            "L20", subject, total, (), whole, f"{' + '.join(str(c.value) for c in parts)} is", "count"
        )


_SENTENCE_COUNT = re.compile(r"(?<![\w.])([0-9]{1,4})\s+(?![0-9%])([a-z]+(?:\s[a-z-]+){0,8})", re.IGNORECASE)


def _check_sentence(transition: Transition, seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error if a sentence sorts more animals into exclusive groups than there are.

    The groups exclude each other if one of them is that without the feature: "36 show pigment, 12 show none".
    """
    text = str(seen.raw.get("value") or "")
    matches = _SENTENCE_COUNT.findall(text[:600])
    if len(matches) < 2 or "|" in text or not any(_NEITHER.search(words) for _, words in matches[1:]):
        return
    if any(character in text for character in "%:;/=") or "." in text.rstrip(". "):
        return
    whole = _find_whole(transition, [claim for claim in found if claim.text not in text])
    described = [c for c in claims.read_text(seen.description) if c.dimension in _COUNTS and c.matches(_ANIMALS)]
    whole = described[0] if len({c.value for c in described}) == 1 else whole
    total = sum((Decimal(number) for number, _ in matches), ZERO)
    if whole is not None and whole.value > 1 and total > whole.value:
        message = f"{' + '.join(number for number, _ in matches)} is {total}, not {whole.value}"
        yield from compare(
            "L20", seen.path, whole.value, total, "count", message, above=ZERO, shown=(str(whole.value), str(total))
        )


def _check_colonies(transition: Transition, gathered: list[Claim]) -> Findings:
    """Yield an error unless CFU/mL is the number of colonies over the plated volume times the dilution."""
    colonies = find_term(
        [c for c in gathered if c.dimension in _COUNTS and not c.matches(_NOT_COLONIES) and c.value == int(c.value)],
        _COLONIES,
        _COUNTS,
    )
    density = _find_density(gathered)
    volume = next(
        (a for leaf, a in transition.parameters.list_amounts("volume") if {"plated", "spread"} & leaf.word_set), None
    )
    factor = transition.parameters.find_dilution_factor()
    if (
        colonies
        and density
        and volume
        and factor
        and colonies.value > 0
        and transition.find_replicate_count() in (None, 1)
    ):
        expected = colonies.value / (volume.value / 1000) * factor
        text = f"{colonies.value} colonies from {units.format_value(volume.value, 'volume')} diluted {factor}-fold are"
        yield from compare_computed(
            "L20", "colony count", expected, (colonies,), density, text, "number_density", Decimal("0.05")
        )


def _find_density(gathered: list[Claim]) -> Claim | None:
    """Return the only density of the undiluted suspension, or None."""
    found = [
        c
        for c in gathered
        if (c.dimension == "number_density" or (c.dimension == "" and c.matches(_PER_PLATE))) and c.matches(_UNDILUTED)
    ]
    return find_term(found, _UNDILUTED, ("", "number_density"))
