"""Whether the form of an item gives it away: twins beside their originals, and sources beside each other."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any, NamedTuple

from ratings.blinding import Payload, blind_transition
from ratings.models import ItemSource, Study
from ratings.studies.blinding_audit import statistics
from ratings.studies.blinding_audit.contexts import Contexts
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.statistics import Contrast
from ratings.studies.pool import quarantine
from simulation.models import Twin

FEWEST = 12  # of either kind: with fewer, no difference could ever pass Holm's correction over the features
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.(\d+))?")
_UNIT = re.compile(r"(?<=\d) ?([A-Za-zµμ°%][A-Za-zµμ°%/]*)")
_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SIGN = re.compile(r"[^A-Za-z0-9 ]")


class Seen(NamedTuple):
    """All that a rater may be shown of an item."""

    payload: Payload
    context: Payload


def features(payload: Payload) -> dict[str, float]:
    """What can be counted without knowing any science: lengths, numbers of things, ways to write a figure."""
    made = payload.get("after") or [one for step in payload.get("steps", ()) for one in step["made"]]
    seen = payload.get("observations") or [one for step in payload.get("steps", ()) for one in step["observations"]]
    texts = [text for _, text in quarantine.texts([made, seen, payload.get("rejected", "")])]
    whole = " ".join(texts)
    numbers = list(_NUMBER.finditer(whole))
    words = _WORD.findall(whole)
    count = max(len(numbers), 1)
    return {
        "characters": float(len(whole)),
        "characters a text": len(whole) / max(len(texts), 1),
        "materials": float(len(made)),
        "properties a material": sum(len(one["properties"]) for one in made) / max(len(made), 1),
        "observations": float(len(seen)),
        "numbers": float(len(numbers)),
        "decimals a number": sum(len(match[1] or "") for match in numbers) / count,
        "digits a number": sum(len(match[0].strip("-").replace(".", "")) for match in numbers) / count,
        "round numbers": sum(match[0].endswith(("0", "5")) for match in numbers) / count,
        "numbers below nought": sum(match[0].startswith("-") for match in numbers) / count,
        "different units": float(len({match[1] for match in _UNIT.finditer(whole)})),
        "units without a space": sum(whole[m.start(1) - 1] != " " for m in _UNIT.finditer(whole)) / count,
        "capitals": sum(letter.isupper() for letter in whole) / max(len(whole), 1),
        "commas and brackets": sum(whole.count(sign) for sign in ",;()") / max(len(whole), 1),
        "word length": sum(map(len, words)) / max(len(words), 1),
        "empty fields": float(sum(text == "" for text in texts)),
        "texts that end with a full stop": sum(text.endswith(".") for text in texts) / max(len(texts), 1),
        **_shape(payload),
    }


def _shape(payload: Payload) -> dict[str, float]:
    """How the parts hang together: letters of materials, and what goes on from what."""
    made = payload.get("after", [])
    refs = [str(one["ref"]) for one in [*payload.get("before", []), *made]]
    return {
        "lineage known": float(payload.get("lineage", True)),
        "outputs that go on from an input": float(sum(bool(one.get("continues")) for one in made)),
        "letters a reference": fmean(map(len, refs)) if refs else 0.0,
        "references that are capital letters": sum(r.isascii() and r.isalpha() and r.isupper() for r in refs)
        / max(len(refs), 1),
        "references out of order": float(sum(a > b for a, b in pairwise(str(one["ref"]) for one in made))),
    }


def _of_context(context: Payload) -> dict[str, float]:
    return {
        "steps of context": float(len(context.get("steps", ()))),
        "characters of context": float(sum(len(text) for _, text in quarantine.texts(context))),
    }


def signs(seen: Seen) -> set[str]:
    """Every sign but plain letters, digits and blanks that stands anywhere in what is shown, and words of the item."""
    item, around = ("\n".join(text for _, text in quarantine.texts(part)) for part in seen)
    words = {f"the word “{word.lower()}”" for word in _LETTERS.findall(item)}
    return words | {f"the sign U+{ord(sign):04X}" for sign in set(_SIGN.findall(item + around)) - {"\n"}}


def checks(study: Study) -> list[Check]:
    """Twins of the offline injectors must not be told by their form; differences of style between models are measured."""
    rows = ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition")
    sources = list(rows.order_by("item__code"))
    return checks_of(sources)


def checks_of(sources: Sequence[ItemSource]) -> list[Check]:
    return [_twins(sources), _styles(sources)]


def _twins(sources: Sequence[ItemSource]) -> Check:
    check = Check("form of twins", "Does a twin's form tell it from its own original, whatever the science says?")
    planted = [source for source in sources if _by_rule(source)]
    contexts = Contexts(sources)
    pairs = [_beside_its_original(source, contexts) for source in planted]
    if len(pairs) < FEWEST:
        check.skipped = f"{len(pairs)} twins by the offline injectors are too few; {FEWEST} would do"
        return check
    found = paired_tells(pairs)
    check.saw([Leak("form of twins", _said(c)) for c in found if c.tells], len(pairs))
    check.measured = {"features": [contrast.to_json() for contrast in found]}
    truth = [0] * len(pairs) + [1] * len(pairs)
    rows = [list(numbers(s).values()) for s in [*(o for o, _ in pairs), *(t for _, t in pairs)]]
    every = statistics.together(rows, truth, [str(source.pair) for source in planted] * 2)
    check.measured["together"] = every.to_json() if every else None
    return check


def _beside_its_original(source: ItemSource, contexts: Contexts) -> tuple[Seen, Seen]:
    """What was made of a step before release 2 does not say whether lineage is known: then it tells nothing."""
    assert source.transition
    original, shown = blind_transition(source.transition.step), source.item.payload
    if "lineage" not in shown:
        original.pop("lineage")
    context = source.item.context if contexts.comparable else {}
    return Seen(original, contexts.of(source.transition) if contexts.comparable else {}), Seen(shown, context)


def paired_tells(pairs: Sequence[tuple[Seen, Seen]]) -> list[Contrast]:
    """Every feature of (original, twin) pairs, corrected over features; `tells` says which fail.

    Left out are features in which too few pairs differ for any test: how many differ at all says nothing of which way.
    """
    originals, twins = [_all_of(o) for o, _ in pairs], [_all_of(t) for _, t in pairs]
    names = dict.fromkeys(name for one in [*originals, *twins] for name in one)
    columns = {name: ([f.get(name, 0.0) for f in originals], [f.get(name, 0.0) for f in twins]) for name in names}
    return statistics.corrected(
        [statistics.paired(name, *both) for name, both in columns.items() if statistics.may_tell(*both)]
    )


def numbers(seen: Seen) -> dict[str, float]:
    return {**features(seen.payload), **_of_context(seen.context)}


def _all_of(seen: Seen) -> dict[str, float]:
    return {**numbers(seen), **dict.fromkeys(sorted(signs(seen)), 1.0)}


def _by_rule(source: ItemSource) -> bool:
    twin: Twin | None = source.twin
    return twin is not None and bool(twin.rule) and source.transition is not None


def _said(contrast: Contrast) -> str:
    return f"{contrast.name}: AUC {contrast.auc:.2f} over {contrast.n} pairs, Holm p = {contrast.adjusted:.2g}"


def _styles(sources: Sequence[ItemSource]) -> Check:
    """Not failed on: that two models write differently cannot be helped, but has to be known."""
    check = Check("style of sources", "How well does the form of an item tell which source it is from?")
    groups: dict[str, list[ItemSource]] = defaultdict(list)
    for source in sources:
        groups[_group(source)].append(source)
    large = {name: rows for name, rows in sorted(groups.items()) if len(rows) >= FEWEST}
    if len(large) < 2:
        check.skipped = f"fewer than two sources have {FEWEST} items"
        return check
    check.looked_at = sum(len(rows) for rows in large.values())
    check.measured = {"contrasts": [_contrast(a, b, large) for a, b in combinations(large, 2)]}
    check.measured["known_tells"] = [tell for one in check.measured["contrasts"] for tell in one["known_tells"]]
    return check


def _group(source: ItemSource) -> str:
    return source.label if source.perturbation == "none" else f"{source.label}, {source.perturbation}"


def _contrast(first: str, second: str, groups: Mapping[str, Sequence[ItemSource]]) -> dict[str, Any]:
    one, other = ([features(s.item.payload) for s in groups[name]] for name in (first, second))
    found = statistics.corrected(
        [statistics.unpaired(name, [f[name] for f in one], [f[name] for f in other]) for name in one[0]]
    )
    truth = [0] * len(one) + [1] * len(other)
    pairs = [str(s.pair) for s in [*groups[first], *groups[second]]]
    every = statistics.together([list(f.values()) for f in [*one, *other]], truth, pairs)
    known = [f"{first} / {second}: {_with_interval(c)}" for c in [*found, *([every] if every else [])] if c.low > 0.5]
    return {
        "between": [first, second],
        "features": [contrast.to_json() for contrast in found],
        "together": every.to_json() if every else None,
        "known_tells": known,
    }


def _with_interval(contrast: Contrast) -> str:
    return f"{contrast.name}, AUC {contrast.auc:.2f} [{contrast.low:.2f}, {contrast.high:.2f}]"
