"""Test whether the form of an item reveals its source: twins are compared with originals, and sources with each
other.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any, NamedTuple

from ratings.blinding import Payload, blind_transition
from ratings.models import ItemSource, Study
from ratings.studies.blinding_audit import separation_tests
from ratings.studies.blinding_audit.contexts import StepContexts
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.separation_tests import Contrast
from ratings.studies.pool import quarantine
from simulation.models import Twin

MIN_ITEMS = 12  # items of each kind: with fewer, no difference could pass Holm's correction over the features
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.(\d+))?")
_UNIT = re.compile(r"(?<=\d) ?([A-Za-zµμ°%][A-Za-zµμ°%/]*)")
_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SIGN = re.compile(r"[^A-Za-z0-9 ]")


class ShownItem(NamedTuple):
    """All that a rater may be shown of an item."""

    payload: Payload
    context: Payload


def compute_features(payload: Payload) -> dict[str, float]:
    """Return measures of form that need no scientific knowledge: lengths, numbers of things, ways to write a number."""
    materials = payload.get("after") or [material for step in payload.get("steps", ()) for material in step["made"]]
    observations = payload.get("observations") or [
        observation for step in payload.get("steps", ()) for observation in step["observations"]
    ]
    texts = [text for _, text in quarantine.iter_texts([materials, observations, payload.get("rejected", "")])]
    full_text = " ".join(texts)
    numbers = list(_NUMBER.finditer(full_text))
    words = _WORD.findall(full_text)
    n_numbers = max(len(numbers), 1)
    return {
        "characters": float(len(full_text)),
        "characters a text": len(full_text) / max(len(texts), 1),
        "materials": float(len(materials)),
        "properties a material": sum(len(material["properties"]) for material in materials) / max(len(materials), 1),
        "observations": float(len(observations)),
        "numbers": float(len(numbers)),
        "decimals a number": sum(len(match[1] or "") for match in numbers) / n_numbers,
        "digits a number": sum(len(match[0].strip("-").replace(".", "")) for match in numbers) / n_numbers,
        "round numbers": sum(match[0].endswith(("0", "5")) for match in numbers) / n_numbers,
        "numbers below nought": sum(match[0].startswith("-") for match in numbers) / n_numbers,
        "different units": float(len({match[1] for match in _UNIT.finditer(full_text)})),
        "units without a space": sum(full_text[m.start(1) - 1] != " " for m in _UNIT.finditer(full_text)) / n_numbers,
        "capitals": sum(letter.isupper() for letter in full_text) / max(len(full_text), 1),
        "commas and brackets": sum(full_text.count(sign) for sign in ",;()") / max(len(full_text), 1),
        "word length": sum(map(len, words)) / max(len(words), 1),
        "empty fields": float(sum(text == "" for text in texts)),
        "texts that end with a full stop": sum(text.endswith(".") for text in texts) / max(len(texts), 1),
        **_compute_structure(payload),
    }


def _compute_structure(payload: Payload) -> dict[str, float]:
    """Return how the parts are connected: references of materials, and which output continues which input."""
    outputs = payload.get("after", [])
    refs = [str(material["ref"]) for material in [*payload.get("before", []), *outputs]]
    return {
        "lineage known": float(payload.get("lineage", True)),
        "outputs that go on from an input": float(sum(bool(material.get("continues")) for material in outputs)),
        "letters a reference": fmean(map(len, refs)) if refs else 0.0,
        "references that are capital letters": sum(r.isascii() and r.isalpha() and r.isupper() for r in refs)
        / max(len(refs), 1),
        "references out of order": float(sum(a > b for a, b in pairwise(str(material["ref"]) for material in outputs))),
    }


def _compute_context_features(context: Payload) -> dict[str, float]:
    return {
        "steps of context": float(len(context.get("steps", ()))),
        "characters of context": float(sum(len(text) for _, text in quarantine.iter_texts(context))),
    }


def find_signs(seen: ShownItem) -> set[str]:
    """Return the words of the item, and all signs in the shown texts except plain letters, digits and blanks."""
    item_text, context_text = ("\n".join(text for _, text in quarantine.iter_texts(part)) for part in seen)
    words = {f"the word “{word.lower()}”" for word in _LETTERS.findall(item_text)}
    return words | {f"the sign U+{ord(sign):04X}" for sign in set(_SIGN.findall(item_text + context_text)) - {"\n"}}


def check_forms(study: Study) -> list[Check]:
    """Return two checks: the form of offline twins reveals nothing; the differences in form between sources are
    measured.
    """
    rows = ItemSource.objects.filter(item__study=study).select_related("item", "twin", "transition")
    sources = list(rows.order_by("item__code"))
    return check_forms_of(sources)


def check_forms_of(sources: Sequence[ItemSource]) -> list[Check]:
    return [_check_twins(sources), _measure_styles(sources)]


def _check_twins(sources: Sequence[ItemSource]) -> Check:
    check = Check("form of twins", "Does the form of a twin distinguish it from its original, apart from the science?")
    # Only rules can be held to this: a language model writes a twin in its own style.
    rule_twins = [source for source in sources if _is_made_by_rule(source)]
    contexts = StepContexts(sources)
    pairs = [_pair_with_original(source, contexts) for source in rule_twins]
    if len(pairs) < MIN_ITEMS:
        check.skipped = f"{len(pairs)} twins by the offline injectors are too few; at least {MIN_ITEMS} are needed"
        return check
    contrasts = compare_twins(pairs)
    check.add_leaks([Leak("form of twins", _describe_contrast(c)) for c in contrasts if c.is_telling], len(pairs))
    check.measured = {"features": [contrast.to_dict() for contrast in contrasts]}
    truth = [0] * len(pairs) + [1] * len(pairs)
    rows = [list(compute_all_features(s).values()) for s in [*(o for o, _ in pairs), *(t for _, t in pairs)]]
    all_features = separation_tests.compare_all_features(rows, truth, [str(source.pair) for source in rule_twins] * 2)
    check.measured["together"] = all_features.to_dict() if all_features else None
    return check


def _pair_with_original(source: ItemSource, contexts: StepContexts) -> tuple[ShownItem, ShownItem]:
    """Return the original of this twin and the twin itself, each as a rater would be shown it."""
    assert source.transition
    original, item_payload = blind_transition(source.transition.step), source.item.payload
    # Items from before release 2 do not state whether lineage is known: their originals must not either, or all
    # would differ.
    if "lineage" not in item_payload:
        original.pop("lineage")
    context = source.item.context if contexts.comparable else {}
    return ShownItem(original, contexts.build_context(source.transition) if contexts.comparable else {}), ShownItem(
        item_payload, context
    )


def compare_twins(pairs: Sequence[tuple[ShownItem, ShownItem]]) -> list[Contrast]:
    """Return the contrast of every feature of (original, twin) pairs, with p-values corrected over the features.

    The check fails on contrasts with `is_telling`.
    """
    originals, twins = (
        [_compute_features_and_signs(o) for o, _ in pairs],
        [_compute_features_and_signs(t) for _, t in pairs],
    )
    feature_names = dict.fromkeys(name for values in [*originals, *twins] for name in values)
    columns = {
        name: ([f.get(name, 0.0) for f in originals], [f.get(name, 0.0) for f in twins]) for name in feature_names
    }
    return separation_tests.correct_contrasts(
        # Features in which too few pairs differ for any test are left out, and do not enter the correction. How many
        # differ does not depend on the direction, so this selection does not bias the tests.
        [
            separation_tests.compare_pairs(name, *both)
            for name, both in columns.items()
            if separation_tests.can_differ(*both)
        ]
    )


def compute_all_features(seen: ShownItem) -> dict[str, float]:
    return {**compute_features(seen.payload), **_compute_context_features(seen.context)}


def _compute_features_and_signs(seen: ShownItem) -> dict[str, float]:
    return {**compute_all_features(seen), **dict.fromkeys(sorted(find_signs(seen)), 1.0)}


def _is_made_by_rule(source: ItemSource) -> bool:
    twin: Twin | None = source.twin
    return twin is not None and bool(twin.rule) and source.transition is not None


def _describe_contrast(contrast: Contrast) -> str:
    return f"{contrast.name}: AUC {contrast.auc:.2f} over {contrast.n} pairs, Holm p = {contrast.adjusted:.2g}"


def _measure_styles(sources: Sequence[ItemSource]) -> Check:
    """Return a check that measures how well the form of an item separates sources. It never fails."""
    # Never a failure: two models write differently, which cannot be helped but has to be known.
    check = Check("style of sources", "How well does the form of an item reveal its source?")
    groups: dict[str, list[ItemSource]] = defaultdict(list)
    for source in sources:
        groups[_format_source(source)].append(source)
    large = {name: rows for name, rows in sorted(groups.items()) if len(rows) >= MIN_ITEMS}
    if len(large) < 2:
        check.skipped = f"fewer than two sources have {MIN_ITEMS} items"
        return check
    check.looked_at = sum(len(rows) for rows in large.values())
    check.measured = {"contrasts": [_compare_sources(a, b, large) for a, b in combinations(large, 2)]}
    check.measured["known_tells"] = [
        tell for contrast in check.measured["contrasts"] for tell in contrast["known_tells"]
    ]
    return check


def _format_source(source: ItemSource) -> str:
    return source.label if source.perturbation == "none" else f"{source.label}, {source.perturbation}"


def _compare_sources(first: str, second: str, groups: Mapping[str, Sequence[ItemSource]]) -> dict[str, Any]:
    first_features, second_features = (
        [compute_features(s.item.payload) for s in groups[name]] for name in (first, second)
    )
    contrasts = separation_tests.correct_contrasts(
        [
            separation_tests.compare_groups(name, [f[name] for f in first_features], [f[name] for f in second_features])
            for name in first_features[0]
        ]
    )
    truth = [0] * len(first_features) + [1] * len(second_features)
    pairs = [str(s.pair) for s in [*groups[first], *groups[second]]]
    all_features = separation_tests.compare_all_features(
        [list(f.values()) for f in [*first_features, *second_features]], truth, pairs
    )
    known_tells = [
        f"{first} / {second}: {_describe_interval(c)}"
        for c in [*contrasts, *([all_features] if all_features else [])]
        if c.low > 0.5
    ]
    return {
        "between": [first, second],
        "features": [contrast.to_dict() for contrast in contrasts],
        "together": all_features.to_dict() if all_features else None,
        "known_tells": known_tells,
    }


def _describe_interval(contrast: Contrast) -> str:
    return f"{contrast.name}, AUC {contrast.auc:.2f} [{contrast.low:.2f}, {contrast.high:.2f}]"
