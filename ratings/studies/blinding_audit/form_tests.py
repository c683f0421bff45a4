"""Test whether the form of an item reveals its source: twins are compared with originals, sources with others."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest, mannwhitneyu, rankdata, wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ratings.blinding import Payload, blind_transition
from ratings.models import ItemSource
from ratings.stats.differences import adjust_by_holm
from ratings.studies import quarantine
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.pool import EarlierSteps

MIN_ITEMS = 12  # items of each kind: with fewer, no difference could pass Holm's correction over the features
ALPHA = 0.01  # after Holm's correction
MIN_AUC = 0.6  # below it a difference does not help a rater, however certain it is
MIN_DIFFERENT_PAIRS = 6  # pairs that differ: with fewer, neither test of pairs can be significant
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.(\d+))?")
_UNIT = re.compile(r"(?<=\d) ?([A-Za-zµμ°%][A-Za-zµμ°%/]*)")
_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SIGN = re.compile(r"[^A-Za-z0-9 ]")
_RESAMPLES = 500
_PERMUTATIONS = 30_000
_MAX_PERMUTED_PAIRS = 50  # pairs up to which signs are permuted: the normal approximation cannot get below 0.001 there


class Contrast(NamedTuple):
    """How well one number separates items of kind 1 from items of kind 0 in either direction; `auc` is at least 0.5."""

    name: str
    n: int
    auc: float
    low: float
    high: float
    p: float
    adjusted: float = 1.0

    @property
    def is_telling(self) -> bool:
        """Return whether the separation is statistically significant, and large enough to help a rater."""
        return self.adjusted < ALPHA and self.auc > MIN_AUC

    def to_dict(self) -> dict[str, float | str]:
        rounded = {name: round(float(getattr(self, name)), 4) for name in ("auc", "low", "high", "p", "adjusted")}
        return {"name": self.name, "n": self.n, **rounded}


def correct_contrasts(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts with their p-values adjusted over all of them."""
    adjusted = adjust_by_holm([contrast.p for contrast in contrasts])
    return [contrast._replace(adjusted=p or 0.0) for contrast, p in zip(contrasts, adjusted, strict=True)]


def compare_groups(name: str, noughts: Sequence[float], ones: Sequence[float], seed: int = 0) -> Contrast:
    """Compare two groups of items by the Mann-Whitney test. The interval of the AUC is a bootstrap over items."""
    if not noughts or not ones or len({*noughts, *ones}) < 2:
        return Contrast(name, len(noughts) + len(ones), 0.5, 0.5, 0.5, 1.0)
    p = float(mannwhitneyu(ones, noughts).pvalue)
    auc, low, high = _bootstrap_auc(np.array(noughts), np.array(ones), seed)
    return Contrast(name, len(noughts) + len(ones), auc, low, high, p)


def compare_pairs(name: str, originals: Sequence[float], twins: Sequence[float], seed: int = 0) -> Contrast:
    """Compare each twin with its own original by the signed rank test, or the sign test for equal differences.

    The AUC is that of all twins against all originals, with a bootstrap over pairs.
    """
    differences = [twin - original for original, twin in zip(originals, twins, strict=True) if twin != original]
    if len(differences) < MIN_DIFFERENT_PAIRS:
        p = 1.0
    # Ranks of equal differences are all tied: then the signs are all there is to test.
    elif len({abs(step) for step in differences}) == 1:
        p = float(binomtest(sum(step > 0 for step in differences), len(differences)).pvalue)
    elif len(differences) <= _MAX_PERMUTED_PAIRS:
        p = _permute_signed_ranks(differences, seed)
    else:
        p = float(wilcoxon(differences).pvalue)
    if not originals:
        return Contrast(name, 0, 0.5, 0.5, 0.5, 1.0)
    auc, low, high = _bootstrap_auc(np.array(originals), np.array(twins), seed, is_paired=True)
    return Contrast(name, len(originals), auc, low, high, p)


def _permute_signed_ranks(differences: Sequence[float], seed: int) -> float:
    """Return the p-value of the signed rank test, with all permutations of signs for few pairs, else random ones."""
    ranks, n = rankdata(np.abs(differences)), len(differences)
    if exact := 2**n <= _PERMUTATIONS:
        signs = 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1
    else:
        signs = np.random.default_rng(seed).choice([-1, 1], size=(_PERMUTATIONS, n))
    # With the tolerance, sums that are equal except for rounding count as equal.
    n_extreme = int((np.abs(signs @ ranks) >= abs(float(np.sign(differences) @ ranks)) - 1e-9).sum())
    # Random signs: the observed ones count as one more permutation, so that p is never 0.
    return n_extreme / len(signs) if exact else (n_extreme + 1) / (len(signs) + 1)


def _bootstrap_auc(
    noughts: np.ndarray, ones: np.ndarray, seed: int, is_paired: bool = False
) -> tuple[float, float, float]:
    """Return the AUC, mirrored if it is below one half, and its 95% bootstrap interval in the same direction."""
    truth = np.concatenate([np.zeros(len(noughts)), np.ones(len(ones))])
    value = float(roc_auc_score(truth, np.concatenate([noughts, ones])))
    rng = np.random.default_rng(seed)
    noughts_drawn = rng.integers(len(noughts), size=(_RESAMPLES, len(noughts)))
    # Pairs are drawn as pairs, so that an original stays with its twin.
    ones_drawn = noughts_drawn if is_paired else rng.integers(len(ones), size=(_RESAMPLES, len(ones)))
    # The AUC of each resample is U divided by the number of pairs: comparing all pairs would take much more memory.
    ranks = rankdata(np.concatenate([noughts[noughts_drawn], ones[ones_drawn]], axis=1), axis=1)
    n_noughts, n_ones = len(noughts), len(ones)
    aucs = (ranks[:, n_noughts:].sum(axis=1) - n_ones * (n_ones + 1) / 2) / (n_ones * n_noughts)
    low, high = np.quantile(aucs, [0.025, 0.975])
    return (1 - value, float(1 - high), float(1 - low)) if value < 0.5 else (value, float(low), float(high))


def compare_all_features(
    rows: Sequence[Sequence[float]], truth: Sequence[int], groups: Sequence[str], seed: int = 0
) -> Contrast | None:
    """Compare the two kinds by all features together, with the out-of-fold scores of a logistic regression.

    Versions of one thing stay in one fold. Returns None if there are too few items of either kind. p is that of the
    Mann-Whitney test of the scores.
    """
    fewest = min(truth.count(0), truth.count(1))
    folds = min(5, len(set(groups)))
    if fewest < 10 or folds < 3:
        return None
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    by_group = {"groups": groups, "cv": GroupKFold(folds)}
    scores = cross_val_predict(model, np.array(rows), np.array(truth), **by_group, method="decision_function")
    noughts, ones = ([float(s) for s, t in zip(scores, truth, strict=True) if t == kind] for kind in (0, 1))
    return compare_groups("all features together", noughts, ones, seed)


class ShownItem(NamedTuple):
    """All that a rater may be shown of an item."""

    payload: Payload
    context: Payload


def compute_features(payload: Payload) -> dict[str, float]:
    """Return measures of form that need no scientific knowledge: lengths, numbers of things, ways to write a number."""
    steps, outputs = payload.get("steps", ()), payload.get("after", [])
    materials = outputs or [material for step in steps for material in step["made"]]
    observations = payload.get("observations") or [one for step in steps for one in step["observations"]]
    refs = [str(material["ref"]) for material in [*payload.get("before", []), *outputs]]
    n_capital_refs = sum(ref.isascii() and ref.isalpha() and ref.isupper() for ref in refs)
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
        # How the parts are connected: references of materials, and which output continues which input.
        "lineage known": float(payload.get("lineage", True)),
        "outputs that go on from an input": float(sum(bool(material.get("continues")) for material in outputs)),
        "letters a reference": fmean(map(len, refs)) if refs else 0.0,
        "references that are capital letters": n_capital_refs / max(len(refs), 1),
        "references out of order": float(sum(a > b for a, b in pairwise(str(material["ref"]) for material in outputs))),
    }


def find_signs(seen: ShownItem) -> set[str]:
    """Return the words of the item, and all signs in the shown texts except plain letters, digits and blanks."""
    item_text, context_text = ("\n".join(text for _, text in quarantine.iter_texts(part)) for part in seen)
    words = {f"the word “{word.lower()}”" for word in _LETTERS.findall(item_text)}
    return words | {f"the sign U+{ord(sign):04X}" for sign in set(_SIGN.findall(item_text + context_text)) - {"\n"}}


def check_forms(sources: Sequence[ItemSource]) -> list[Check]:
    """Return two checks: twins do not differ in form from originals; differences between sources are measured.

    Each source comes with its item, twin and transition, which has its episode and experiment.
    """
    return [_check_twins(sources), _measure_styles(sources)]


def _check_twins(sources: Sequence[ItemSource]) -> Check:
    check = Check("form of twins", "Does the form of a twin distinguish it from its original, apart from the science?")
    # Only rules can be held to this: a language model writes a twin in its own style.
    rule_twins = [source for source in sources if source.twin and source.twin.rule and source.transition]
    if len(rule_twins) < MIN_ITEMS:
        check.skipped = f"{len(rule_twins)} twins by the offline injectors are too few; at least {MIN_ITEMS} are needed"
        return check
    pairs = _pair_with_originals(rule_twins, _build_contexts(sources))
    contrasts = compare_twins(pairs)
    telling = (c for c in contrasts if c.is_telling)
    texts = (f"{c.name}: AUC {c.auc:.2f} over {c.n} pairs, Holm p = {c.adjusted:.2g}" for c in telling)
    check.add_leaks((Leak("form of twins", text) for text in texts), len(pairs))
    check.measured = {"features": [contrast.to_dict() for contrast in contrasts]}
    truth = [0] * len(pairs) + [1] * len(pairs)
    rows = [list(compute_all_features(s).values()) for s in [*(o for o, _ in pairs), *(t for _, t in pairs)]]
    all_features = compare_all_features(rows, truth, [str(source.pair) for source in rule_twins] * 2)
    check.measured["together"] = all_features.to_dict() if all_features else None
    return check


def _build_contexts(sources: Sequence[ItemSource]) -> dict[int, Payload]:
    """Return the context of each step as it would be built now; {} if the stored ones differ: a goal has changed."""
    earlier_steps = EarlierSteps(wanted=any(source.item.context for source in sources))
    steps = sorted((s.transition for s in sources if s.transition), key=lambda row: (row.episode_id, row.number))
    contexts = {row.pk: earlier_steps.build_context(row) for row in steps}
    genuine = [s for s in sources if s.transition and s.twin is None]
    return contexts if all(s.item.context == contexts[s.transition.pk] for s in genuine if s.transition) else {}


def _pair_with_originals(
    twins: Sequence[ItemSource], contexts: Mapping[int, Payload]
) -> list[tuple[ShownItem, ShownItem]]:
    """Return each twin after its original, both as a rater would be shown them."""
    pairs = []
    for source in twins:
        assert source.transition
        original, item_payload = blind_transition(source.transition.step), source.item.payload
        # Items from before release 2 do not state whether lineage is known: their originals must not either.
        if "lineage" not in item_payload:
            original.pop("lineage")
        original_context = contexts.get(source.transition.pk, {})
        twin_context = source.item.context if contexts else {}
        pairs.append((ShownItem(original, original_context), ShownItem(item_payload, twin_context)))
    return pairs


def compare_twins(pairs: Sequence[tuple[ShownItem, ShownItem]]) -> list[Contrast]:
    """Return the contrast of every feature of (original, twin) pairs, with p-values corrected over the features."""
    both = [[compute_all_features(s) | dict.fromkeys(sorted(find_signs(s)), 1.0) for s in pair] for pair in pairs]
    originals, twins = zip(*both, strict=True)
    names = dict.fromkeys(name for values in [*originals, *twins] for name in values)
    columns = {name: ([f.get(name, 0.0) for f in originals], [f.get(name, 0.0) for f in twins]) for name in names}
    # Features in which too few pairs differ for any test are left out, and do not enter the correction. How many
    # differ does not depend on the direction, so this selection does not bias the tests.
    n_different = {name: sum(a != b for a, b in zip(*both, strict=True)) for name, both in columns.items()}
    compared = (name for name, n in n_different.items() if n >= MIN_DIFFERENT_PAIRS)
    return correct_contrasts([compare_pairs(name, *columns[name]) for name in compared])


def compute_all_features(seen: ShownItem) -> dict[str, float]:
    return {
        **compute_features(seen.payload),
        "steps of context": float(len(seen.context.get("steps", ()))),
        "characters of context": float(sum(len(text) for _, text in quarantine.iter_texts(seen.context))),
    }


def _measure_styles(sources: Sequence[ItemSource]) -> Check:
    """Return a check that measures how well the form of an item separates sources. It never fails."""
    # Never a failure: two models write differently, which cannot be helped but has to be known.
    check = Check("style of sources", "How well does the form of an item reveal its source?")
    groups: dict[str, list[ItemSource]] = defaultdict(list)
    for source in sources:
        planted = "" if source.perturbation == "none" else f", {source.perturbation}"
        groups[f"{source.label}{planted}"].append(source)
    large = {name: rows for name, rows in sorted(groups.items()) if len(rows) >= MIN_ITEMS}
    if len(large) < 2:
        check.skipped = f"fewer than two sources have {MIN_ITEMS} items"
        return check
    check.looked_at = sum(len(rows) for rows in large.values())
    contrasts = [_compare_sources(a, b, large) for a, b in combinations(large, 2)]
    known_tells = [tell for contrast in contrasts for tell in contrast["known_tells"]]
    check.measured = {"contrasts": contrasts, "known_tells": known_tells}
    return check


def _compare_sources(first: str, second: str, groups: Mapping[str, Sequence[ItemSource]]) -> dict[str, Any]:
    ones, others = ([compute_features(s.item.payload) for s in groups[name]] for name in (first, second))
    columns = ((name, [f[name] for f in ones], [f[name] for f in others]) for name in ones[0])
    contrasts = correct_contrasts([compare_groups(*column) for column in columns])
    truth, pairs = [0] * len(ones) + [1] * len(others), [str(s.pair) for s in [*groups[first], *groups[second]]]
    all_features = compare_all_features([list(f.values()) for f in [*ones, *others]], truth, pairs)
    telling = (c for c in [*contrasts, *([all_features] if all_features else [])] if c.low > 0.5)
    tells = (f"{c.name}, AUC {c.auc:.2f} [{c.low:.2f}, {c.high:.2f}]" for c in telling)
    known_tells = [f"{first} / {second}: {tell}" for tell in tells]
    return {
        "between": [first, second],
        "features": [contrast.to_dict() for contrast in contrasts],
        "together": all_features.to_dict() if all_features else None,
        "known_tells": known_tells,
    }
