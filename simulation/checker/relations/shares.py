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
from simulation.checker.reading import claims
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compile_label

ZERO = Decimal(0)
_COUNTS = ("", "count")
# A whole number and a share behind it: "8653; 17.0 % of parent", "25 (65.1 %)", "7715 -> 91.5 % of live", "| 18 | 75 % |".
_COUNT_AND_SHARE = re.compile(
    r"(?<![\w.,/^-])(?<![0-9] )(?P<count>[0-9]{1,9})(?![\w.%]|,[0-9]|-[A-Za-z])(?P<gap>\s?(?:[A-Za-z+-]{1,14}\s?){0,3}[;,(=|:~≈]?\s?(?:->|→|i\.?e\.?|or|=|~|≈)?\s?)"
    r"(?P<share>[0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%(?P<of>\s?\)?,?\s?of (?:the |all )?[^;,|)\n0-9]{1,30})?"
)
# Shares of something that the record does not count, or that are no shares.
_OTHER_SHARE = compile_label(
    r"\b(?:mock|control|untreated|relative|recover\w*|yield|rsd|cv|sd|sem|error|change|increase|decrease|rise|fall|more|less|expected|target|nominal|humidity|co2|agarose|gel|"
    r"acrylamide|serum|fbs|dmso|ethanol|glycerol|v/v|w/v|m/v|identity|quality|efficiency|purity|confiden\w+|saturation|confluen\w+|mean|per|dilution|laser|power|q30|limit|error)\b|±|\+/-"
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


def check_shares(transition: Transition) -> Findings:
    """L20: yield an error if a share behind a count fits no whole, or if exclusive classes do not make up their whole."""
    observed = claims.list_observed(transition)
    everywhere = [c.value for _, found in observed for c in found if _is_count(c)]
    before = [c.value for c in claims.list_claims(transition, transition.inputs) if _is_count(c) and c.value > 1]
    for seen, found in observed:
        yield from _check_parts(seen, everywhere, before)
        yield from _check_tree(seen)
        yield from _check_classes(seen.path, found)
    yield from _check_opposites([claim for _, found in observed for claim in found])
    for view in transition.usable_outputs:
        yield from _check_wells(view, claims.list_claims(transition, [view]))


def _is_count(claim: Claim) -> bool:
    return claim.dimension in _COUNTS and claim.value == claim.value.to_integral_value() and claim.value >= 0


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
        if not is_table and not _OTHER_SHARE.search(around) and share <= 100:
            parts.append(
                Part(Decimal(match["count"]), share, margin, (match["of"] or "").lower(), label.lower(), match.start())
            )
    return parts


def _fits(part: Part, whole: Decimal) -> bool:
    return whole > 0 and abs(part.number / whole * 100 - part.share) <= part.margin


def _check_parts(seen: ObservationView, everywhere: list[Decimal], before: list[Decimal]) -> Findings:
    """Yield an error if a share behind a count fits none of the numbers that it can refer to."""
    text = seen.full_text[:2000]
    parts = [part for part in _read_parts(text) if part.number > 1]
    if not parts:
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
        if any(_fits(part, whole) for whole in wholes):
            yield Decided("L20", quantity=True)
            continue
        named = _find_named(part, text)
        larger = max(wholes, default=ZERO)
        # The whole may be a number that the record does not have, unless something says which it is.
        is_certain = (
            bool(named)
            or (_PARENT.search(part.of) is not None and bool(wholes))
            or (not part.of and (is_partition or bool(shared)))
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
            text_found = f"{part.number} of {nearest} are {expected}, not {got}"
            yield error_finding("L20", seen.path, expected, got, text_found)


def _find_named(part: Part, text: str) -> set[Decimal]:
    """Return the counts whose label has the words that the share is said to be of."""
    names = set(_WORDS.findall(part.of.lower())) - _STOP
    if not names:
        return set()
    found = claims.read_text(text)
    return {c.value for c in found if _is_count(c) and c.value >= part.number and names & set(_WORDS.findall(c.label))}


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
        message = f"{line.number} ({line.label[:30]}) are more than the {above.number} ({above.label[:30]}) of which they are part"
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
            message = f"{line.number} of {above.number} are {expected:.1f} %, not {line.share} %"
            root = lines[0].number
            # A list may give the share of all events throughout.
            if root <= 0 or abs(line.number / root * 100 - line.share) > line.margin:
                shown = f"{expected:.1f} %", f"{line.share} %"
                yield from compare(
                    "L20", seen.path, expected, line.share, "ratio", message, line.margin, line.margin, shown=shown
                )


_WHOLE = compile_label(
    r"\b(?:total|tot|all|sum|overall|gesamt\w*|insgesamt|totale?s?|n)\b|\bevaluated\b|\bscored\b|\bpicked\b|\bexamined\b|\bcounted\b"
)
_SUBSET = compile_label(
    r"\b(?:of which|thereof|of these|of them|including|incl|among|davon|dont|each|per|replicates?|min|limit|threshold|thr|day|page|cycle|ct|area|nm|channel|mean)\b"
)
_REST = compile_label(
    r"\b(?:none|no|not|neither|without|failed|fail|rest|remaining|others?|unclear|undetermined|undecided|ambiguous|empty|absent|negative|neg|dark|dead|uncut|uncleaved|no growth|no call|keine|ohne|aucun\w*|sans)\b|-(?:\s|$)"
)
_EXCLUSIVE = compile_label(
    r"\b(?:exactly|only) one (?:class|group|category|call)|\bexclusive\b|\bclass(?:es)?\b|\bbreakdown\b|\btally\b|\bcategor\w+"
)


def _check_classes(subject: str, found: list[Claim]) -> Findings:
    """Yield an error if the counts of exclusive classes, one of which is the rest, cannot make up the stated whole."""
    counts = [claim for claim in found if _is_count(claim) and not _SUBSET.search(claim.label)]
    wholes = [claim for claim in counts if claim.matches(_WHOLE)]
    parts = [claim for claim in counts if not claim.matches(_WHOLE)]
    labels = {claim.label for claim in parts}
    if (
        any(claim.matches(_GATE) for claim in counts)
        or len({claim.value for claim in wholes}) != 1
        or not 2 <= len(parts) <= 8
        or len(labels) != len(parts)
    ):
        return
    if not any(claim.matches(_REST) for claim in parts) and not any(
        _EXCLUSIVE.search(f"{c.label} {c.context}") for c in found
    ):
        return
    whole = wholes[0].value
    if (
        whole < 2
        or any(claim.value > whole for claim in parts)
        or max(claim.value for claim in parts) * len(parts) * 3 < whole
    ):
        return
    yield Decided("L20", quantity=True)
    # Classes may be divided further, so any selection that makes up the whole is accepted.
    values = [claim.value for claim in parts]
    if any(sum(chosen) == whole for size in range(1, len(values) + 1) for chosen in combinations(values, size)):
        return
    total = sum(values, ZERO)
    if total > whole or len(parts) >= 3:
        text = f"{' + '.join(str(value) for value in values)} is {total}, not {whole}"
        yield error_finding("L20", subject, str(whole), str(total), text)


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
    counts = [claim for claim in gathered if _is_count(claim) and claim.value > 1]
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


_PLATE = re.compile(r"\b(1536|384|96|48|24|12|6)[- ]?well(?!s)", re.IGNORECASE)
_WELLS = compile_label(r"[0-9] wells?$")
_ALL_WELLS = compile_label(r"\b(?:used|total|filled|all|occupied|per|in|volume|each|number of wells|of)\b|-well")


def _check_wells(view: MaterialView, found: Iterable[Claim]) -> Findings:
    """Yield an error if the samples and controls of a plate take more wells than it has."""
    described = f"{view.name} {view.container} {' '.join(leaf.value_text for leaf in view.leaves)}"
    formats = set(_PLATE.findall(described))
    groups = [c for c in found if _is_count(c) and _WELLS.search(c.text) and not c.matches(_ALL_WELLS)]
    if len(formats) == 1 and len(groups) >= 2 and len({c.label for c in groups}) == len(groups):
        size, total = Decimal(formats.pop()), sum((claim.value for claim in groups), ZERO)
        text = f"{' + '.join(str(claim.value) for claim in groups)} is {total} wells on a plate of {size}"
        yield from compare("L20", view.name, size, total, "count", text, above=ZERO, shown=(str(size), str(total)))
