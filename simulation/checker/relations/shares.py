"""L20: shares that stand beside counts, and counts of classes that make up a whole.

"GFP+ 8,653; 24.0 % of parent", "WT 11 (22.9 %)", "20 patches: 13 green, 6 dark, 1 without growth", "92 + 4 wells of a 96-well plate".
What a share refers to is often not said, so it is wrong only if it fits no number that it could refer to.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from simulation.checker.findings import Decided, Findings, compare, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compile_label, is_count

ZERO = Decimal(0)
_COUNTS = ("", "count")
# A whole number and a share behind it: "8653; 17.0 % of parent", "25 (65.1 %)", "7715 -> 91.5 % of live", "| 18 | 75 % |".
_COUNT_AND_SHARE = re.compile(
    r"(?<![\w.,/^-])(?<![0-9] )(?<!/ )(?P<count>[0-9]{1,9})(?![\w.%]|,[0-9]|-[A-Za-z])(?P<gap>\s?(?:(?:[A-Za-z+-]{1,14}\s?){0,3}(?:[;,(=|:~≈]|->|→|\bor\b|i\.?e\.?)\s?(?:->|→|i\.?e\.?|or|=|~|≈)?\s?|\s?))"
    r"(?P<share>[0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%(?P<of>\s?\)?,?\s?of (?:the |all )?[^;,|)\n0-9]{1,30})?"
)
# Shares of something that the record does not count, or that are no shares.
_OTHER_SHARE = compile_label(
    r"\b(?:mock|control|untreated|relative|recover\w*|yield|rsd|cv|sd|sem|error|change|increase|decrease|rise|fall|more|less|expected|target|nominal|humidity|co2|agarose|gel|"
    r"acrylamide|serum|fbs|dmso|ethanol|glycerol|v/v|w/v|m/v|identity|quality|efficiency|purity|confiden\w+|saturation|confluen\w+|mean|per|dilut\w*|laser|power|q30|limit|error)\b|±|\+/-"
)
_COUNT_HEADING = compile_label(r"\b(?:counts?|events?|numbers?|n|cells|colonies|fish|larvae|animals|wells|reads)\b|#|№")
_PARENT = compile_label(r"\bparent\b|\bprevious gate\b|\bgate\b|\babove\b")
_WORDS = re.compile(r"[a-z0-9+-]{2,}")
_STOP = frozenset(
    [
        "of",
        "the",
        "all",
        "cells",
        "cell",
        "events",
        "total",
        "and",
        "in",
        "with",
        "their",
        "that",
        "these",
        "those",
        "which",
    ]
)
_MARGIN = Decimal("0.15")  # points: a share is computed from numbers that are rounded themselves
_BULLET = re.compile(r"^(?P<depth>[\s>└├│─•*-]*)")


class Part(NamedTuple):
    """A count with the share that stands behind it, what the share is of, and the label in front."""

    number: Decimal
    share: Decimal
    margin: Decimal
    of: str
    label: str
    start: int
    is_apart: bool = False  # a semicolon separates the share from the count, so it may be of an earlier one


def check_shares(transition: Transition) -> Findings:
    """L20: yield an error if a share behind a count fits no whole, or if exclusive classes do not make up their whole."""
    observed = claims.list_observed(transition)
    everywhere = [c.value for _, found in observed for c in found if is_count(c)]
    before = [c.value for c in claims.list_claims(transition, transition.inputs) if is_count(c) and c.value > 1]
    for seen, found in observed:
        yield from _check_parts(seen, found, everywhere, before)
        yield from _check_tree(seen)
    yield from _check_opposites([claim for _, found in observed for claim in found])
    for seen, found in observed:
        yield from _check_opposite_shares(seen.path, found)
    for view in transition.usable_outputs:
        yield from _check_wells(view, claims.list_claims(transition, [view]))


def _read_parts(text: str) -> list[Part]:
    parts = []
    for match in _COUNT_AND_SHARE.finditer(text):
        label = re.split(r"[;\n|(]|,\s", text[max(0, match.start() - 60) : match.start()])[-1].strip(" :>-=")
        around = f"{label} {match['gap']} {match['of'] or ''} {text[match.end() : match.end() + 15]}"
        share = Decimal(match["share"])
        # In a table the number in front is a count only if the heading says so.
        is_table = "|" in match["gap"] and not _COUNT_HEADING.search(text.partition("\n")[0])
        decimals = len(match["share"].partition(".")[2])
        margin = _MARGIN + Decimal(10) ** -decimals * (Decimal("0.6") if decimals else Decimal(1))
        unit = re.match(r"\s?([A-Za-zµ]{1,4})(?![A-Za-z])", match["gap"])
        is_amount = unit is not None and units.find_dimension(unit[1]) not in ("", "count")
        if not is_amount and not is_table and not _OTHER_SHARE.search(around) and share <= 100:
            number = Decimal(match["count"])
            # "31 green, 17 white (64.6 % green)": the word behind the share says which count it is of.
            if (behind := re.match(r"\s([A-Za-z][A-Za-z+-]{2,15})", text[match.end() :])) and not match["of"]:
                word = re.escape(behind[1])
                other = re.search(
                    rf"(?<![\w.])([0-9]{{1,9}}) {word}(?!\w)|(?<!\w){word}:? ([0-9]{{1,9}})(?![\w.])",
                    text[: match.start() + 12],
                )
                number = Decimal(other[1] or other[2]) if other else number
            parts.append(
                Part(
                    number,
                    share,
                    margin,
                    (match["of"] or "").lower(),
                    label.lower(),
                    match.start(),
                    ";" in match["gap"],
                )
            )
    return parts


def _fits(part: Part, whole: Decimal) -> bool:
    return whole > 0 and abs(part.number / whole * 100 - part.share) <= part.margin


# Words of a label that say what kind of number it is and not what was counted.
_KIND_WORDS = frozenset(
    [
        "n",
        "number",
        "count",
        "counts",
        "of",
        "the",
        "frac",
        "fraction",
        "share",
        "pct",
        "percent",
        "percentage",
        "%",
        "events",
        "parent",
        "proportion",
        "in",
    ]
)
_FRACTION_WORDS = compile_label(r"\bfrac(?:tion)?\b|\bshare\b|\bproportion\b|\banteil\b")


# "rise time, 10 to 90 %"
_RANGE = compile_label(r"[0-9] ?(?:to|bis|and|a|-) ?(?:[0-9]|$)")


def _read_rows(found: list[Claim]) -> list[Part]:
    """Return the counts and shares of one row of a table or object, or of the same name."""
    groups: dict[str, list[Claim]] = {}
    for claim in found:
        name = " ".join(sorted(set(claim.label.split()) - _KIND_WORDS))
        # "% of live" is not the share of the live ones.
        if name and not (claim.dimension == "ratio" and " of " in f" {claim.label} "):
            groups.setdefault(f"name {name}", []).append(claim)
        if "|" in claim.group:
            groups.setdefault(f"row {claim.group}", []).append(claim)
    parts = []
    for group in groups.values():
        counts = [
            claim
            for claim in group
            if is_count(claim)
            and not _FRACTION_WORDS.search(claim.label)
            and claim.value > 1
            and not _RANGE.search(claim.text)
        ]
        shares = [
            c
            for c in group
            if c.dimension == "ratio" or (c.dimension == "" and c.value <= 1 and _FRACTION_WORDS.search(c.label))
        ]
        if len({c.value for c in counts}) == len({c.value for c in shares}) == 1 and not _OTHER_SHARE.search(
            f"{counts[0].label} {shares[0].label}"
        ):
            scale = 1 if shares[0].dimension == "ratio" else 100
            of = "parent" if _PARENT.search(shares[0].label) else f" {shares[0].label}".partition(" of ")[2]
            margin = _MARGIN + shares[0].step * scale * Decimal("1.2")
            parts.append(Part(counts[0].value, shares[0].value * scale, margin, of, counts[0].label, 0))
    return list({(part.number, part.share): part for part in parts}.values())


def _check_parts(
    seen: ObservationView, found: list[Claim], everywhere: list[Decimal], before: list[Decimal]
) -> Findings:
    """Yield an error if a share behind a count fits none of the numbers that it can refer to."""
    text = seen.full_text[:2000]
    written = [part for part in _read_parts(text) if part.number > 1]
    parts = written + [
        part for part in _read_rows(found) if (part.number, part.share) not in {(p.number, p.share) for p in written}
    ]
    if not parts or len({part.number for part in parts}) < len(parts):
        return
    total = sum((part.number for part in parts), ZERO)
    listed = [Decimal(number) for number in re.findall(r"(?<![\w.,/^-])([0-9]{1,9})(?![\w.%]|,[0-9]|-[A-Za-z])", text)]
    known = {*everywhere, *listed, *before}
    is_partition = len(parts) >= 2 and total in known
    shared = [whole for whole in known | {total} if sum(_fits(part, whole) for part in parts) >= 2]
    for part in parts:
        wholes = {whole for whole in known | {total} if whole >= part.number} - (
            {part.number} if part.share < 99 else set()
        )
        numbers = known if part.is_apart else {part.number}
        if any(_fits(part._replace(number=number), whole) for number in numbers if number > 1 for whole in wholes):
            yield Decided("L20", quantity=True)
            continue
        named = _find_named(part, text)
        larger = max(wholes, default=ZERO)
        # The whole may be a number that the record does not have, unless something says which it is.
        is_certain = (
            bool(named)
            or (_PARENT.search(part.of) is not None and any(whole > part.number for whole in known))
            or (not part.of and (is_partition or bool(shared)))
            or (not part.of and _is_class(part.number, known))
            or (
                larger > 0
                and part.share > 0
                and part.number / part.share * 100 > larger * Decimal("1.05")
                and not part.of
            )
        )
        if is_certain and wholes:
            nearest = min(named or wholes, key=lambda whole: abs(part.number / whole * 100 - part.share))
            expected, got = f"{part.number / nearest * 100:.1f} %", f"{part.share} %"
            text_found = f"{part.number} of {nearest} is {expected}, not {got}"
            yield error_finding("L20", seen.path, expected, got, text_found)


def _is_class(number: Decimal, known: set[Decimal]) -> bool:
    """Return whether a number and up to four other numbers of the record add up to another one."""
    others = sorted(value for value in known if value > 0 and value != number)[:10]
    return any(number + sum(chosen) in known for size in range(1, 5) for chosen in combinations(others, size))


def _find_named(part: Part, text: str) -> set[Decimal]:
    """Return the counts whose label has the words that the share is said to be of."""
    names = {name.rstrip("s") for name in set(_WORDS.findall(part.of.lower())) - _STOP}
    if not names:
        return set()
    found = claims.read_text(text)
    return {
        c.value
        for c in found
        if is_count(c) and c.value >= part.number and names & {word.rstrip("s") for word in _WORDS.findall(c.label)}
    }


class _Line(NamedTuple):
    depth: int
    number: Decimal
    share: Decimal | None
    margin: Decimal
    label: str


def _check_tree(seen: ObservationView) -> Findings:
    """Yield an error if a gate of an indented list has more events than the gate above it, or another share of it."""
    lines: list[_Line] = []
    for row in str(seen.value or seen.description).split("\n")[:40]:
        bullet = _BULLET.match(row)
        match = re.search(r"(?<![\w.,/^-])([0-9]{1,9})(?![\w.%/]|,[0-9]|-[A-Za-z])", row)
        if match is None or bullet is None:
            continue
        parts = _read_parts(row)
        share = parts[0] if len(parts) == 1 and (not parts[0].of or _PARENT.search(parts[0].of)) else None
        depth = len(bullet["depth"].rstrip(" ") if ">" in bullet["depth"] else bullet["depth"])
        label = row[bullet.end() : match.start()].strip().lower()
        lines.append(_Line(depth, Decimal(match[1]), share and share.share, share.margin if share else ZERO, label))
    if len({line.depth for line in lines}) < 2:
        return
    for index, line in enumerate(lines):
        above = next((other for other in reversed(lines[:index]) if other.depth < line.depth), None)
        if above is None or above.number <= 0 or line.number <= 1:
            continue
        message = (
            f"{line.number} ({line.label[:30]}) is more than {above.number} ({above.label[:30]}), of which it is a part"
        )
        yield from compare(
            "L20",
            seen.path,
            above.number,
            line.number,
            "count",
            message,
            above=ZERO,
            shown=(str(above.number), str(line.number)),
        )
        siblings = [other for other in lines if other.depth == line.depth]
        if line.share is not None and len(siblings) < 6:
            expected = line.number / above.number * 100
            message = f"{line.number} of {above.number} is {expected:.1f} %, not {line.share} %"
            root = lines[0].number
            # A list may give the share of all events throughout.
            if root <= 0 or abs(line.number / root * 100 - line.share) > line.margin:
                shown = f"{expected:.1f} %", f"{line.share} %"
                yield from compare(
                    "L20", seen.path, expected, line.share, "ratio", message, line.margin, line.margin, shown=shown
                )


# Names of two opposite classes: the second is everything that the first is not.
_OPPOSITES = (
    (compile_label(r"\b(?P<name>[a-z0-9-]{2,12})\s?(?:\+(?!\w)|\bpos(?:itive|\.)?(?!\w))"), compile_label(r"\b(?P<name>[a-z0-9]{2,12})\s?(?:-(?![\w])|neg(?:ative|\.)?(?!\w))")),
)  # fmt: skip
_GATE = compile_label(
    r"\blive\b|\bliving\b|\bviable\b|\bsinglets?\b|\bsingle\b|\bgated?\b|\bparent\b|\bintact\b|\blebend\w*|\bvivant\w*"
)
_ROOT = compile_label(r"\bevents?\b|\ball\b|\btotal\b|\brecorded\b|\bacquired\b|\bcells\b")


def _check_opposites(gathered: list[Claim]) -> Findings:
    """Yield an error if the events with and without a marker add up to none of the gates of the record."""
    counts = [claim for claim in gathered if is_count(claim) and claim.value > 1]
    for positive_name, negative_name in _OPPOSITES:
        positives, negatives = (
            {match["name"].lower().strip("-"): claim for claim in counts if (match := name.search(claim.label))}
            for name in (positive_name, negative_name)
        )
        markers = [name for name in positives if name in negatives and positives[name] is not negatives[name]]
        if len(markers) != 1:
            continue
        positive, negative = positives[markers[0]], negatives[markers[0]]
        others = [
            c
            for c in counts
            if c is not positive and c is not negative and c.value >= max(positive.value, negative.value)
        ]
        gates = {c.value for c in others if c.matches(_GATE)}
        roots = {c.value for c in others if c.matches(_ROOT) and not c.matches(_GATE)}
        total = positive.value + negative.value
        if any(abs(whole - total) <= max(Decimal(1), whole / 500) for whole in gates | roots):
            yield Decided("L20", quantity=True)
        elif gates or (roots and total > max(roots)):
            whole = min(gates or roots, key=lambda value: abs(value - total))
            text = f"{positive.text} and {negative.text} add up to {total}, not {whole}"
            yield error_finding("L20", "gates", str(total), str(whole), text)


def _check_opposite_shares(subject: str, found: list[Claim]) -> Findings:
    """Yield an error if the shares with and without a marker are more than the whole: "GFP pos 64 %, GFP neg 46 %"."""
    shares = [c for c in found if c.dimension == "ratio" and 0 < c.value <= 100 and not _OTHER_SHARE.search(c.label)]
    for positive_name, negative_name in _OPPOSITES:
        named = [
            {match["name"].lower().strip("-"): c for c in shares if (match := name.search(c.own_label))}
            for name in (positive_name, negative_name)
        ]
        for marker in named[0].keys() & named[1].keys():
            first, second = named[0][marker], named[1][marker]
            if first is second or len(shares) > 4:
                continue
            total, allowed = first.value + second.value, Decimal(1) + first.step + second.step
            text = f"{first.text} and {second.text} are {total} % together"
            yield from compare("L23", subject, Decimal(100), total, "ratio", text, above=allowed)


_PLATE = re.compile(r"\b(1536|384|96|48|24|12|6)[- ]?well(?!s)", re.IGNORECASE)
_WELLS = compile_label(r"[0-9] wells?$")
_ALL_WELLS = compile_label(r"\b(?:used|total|filled|all|occupied|per|in|volume|each|number of wells|of)\b|-well")


def _check_wells(view: MaterialView, found: Iterable[Claim]) -> Findings:
    """Yield an error if the samples and controls of a plate take more wells than it has."""
    described = f"{view.name} {view.container} {' '.join(leaf.value_text for leaf in view.leaves)}"
    formats = set(_PLATE.findall(described))
    groups = [c for c in found if is_count(c) and _WELLS.search(c.text) and not c.matches(_ALL_WELLS)]
    if len(formats) == 1 and len(groups) >= 2 and len({c.label for c in groups}) == len(groups):
        size, total = Decimal(formats.pop()), sum((claim.value for claim in groups), ZERO)
        text = f"{' + '.join(str(claim.value) for claim in groups)} is {total}, but the plate has {size} wells"
        yield from compare("L20", view.name, size, total, "count", text, above=ZERO, shown=(str(size), str(total)))
