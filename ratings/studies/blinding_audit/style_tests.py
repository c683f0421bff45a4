"""Test whether style alone separates planted from unperturbed outcomes, or one source from the others.

Style is an outcome without its numbers and content words: function words, punctuation, capitals and the lengths of
words. The check fails on style only. Separation by the words themselves is measured for information, because a
planted error has to change what an outcome states. Outcomes are compared within an action only, since sources may do
different things.
"""

import re
from collections.abc import Sequence
from functools import cache

from ratings.blinding import Payload
from ratings.models import ItemSource
from ratings.protocol import reference
from ratings.studies import quarantine
from ratings.studies.blinding_audit import text_classifier
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.text_classifier import DetectionPower, Example, Separation

# A lower bound above it fails: chance is 0.5, and this leaves room for what an error has to change.
PLANTED_MARGIN = 0.60
SOURCE_MARGIN = 0.80  # wider: two simulators never write alike, and a rater does not know the style of either
PLANTED_TARGET_AUC, SOURCE_TARGET_AUC = 0.75, 0.90  # AUCs that a study should be able to detect; for planning
SEED = 18
NOT_COVERED = "A style that cannot be learned from single words and signs and two in a row, in this number of outcomes, is not covered."
_TOKEN = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|[^\W\d_]+|[^\w\s]|\n")
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a an the and or but nor so yet of in on at by for from to with without into onto over under after before
    during between within is are was were be been being has have had do does did not no as than then that this
    these those it its which who there here when where while if because however therefore thus also only very
    more most less least some any all both each every other such can could may might must shall should will
    would about approximately slightly clearly appears appear remains remain now still again
    """,
    )
)


def check_styles(sources: Sequence[ItemSource]) -> list[Check]:
    """Return the check of planted errors' style and the check of sources' style. Each source comes with its item."""
    return [_check_planted_style(sources), _check_source_style(sources)]


def reduce_to_style(text: str) -> str:
    """Return the text with numbers replaced by 0 and content words by their shape. Pieces are separated by blanks.

    >>> reduce_to_style("The tube is CLEAR, 12.5 mL.")
    'The w4 is W5 , 0 wW2 .'
    """
    return " ".join(map(_shape_of_piece, _TOKEN.findall(text)))


@cache
def _shape_of_piece(piece: str) -> str:
    if piece[-1].isdigit():
        return "0"
    if piece == "\n":
        return "/"
    if not piece[0].isalpha() or piece.lower() in _FUNCTION_WORDS:
        return piece
    case = "w" if piece.islower() else "W" if piece.isupper() else "Ww" if piece.istitle() else "wW"
    return f"{case}{min(len(piece), 12)}"


def normalise_words(text: str) -> str:
    """Return the text in lower case with each number replaced by 0. Pieces are separated by blanks."""
    return " ".join("0" if piece[-1].isdigit() else piece for piece in _TOKEN.findall(text.lower()))


def _outcome_text(payload: Payload) -> str:
    parts = [payload.get(key) for key in ("after", "observations", "rejected")]
    parts += [[step.get(key) for key in ("made", "observations", "rejected")] for step in payload.get("steps", ())]
    return "\n".join(text for _, text in quarantine.iter_texts(parts))


def _check_planted_style(sources: Sequence[ItemSource]) -> Check:
    check = Check(
        "style of planted errors",
        "Does style alone, without numbers and content words, separate planted from unperturbed outcomes of one action on "
        f"held-out pairs? The check fails if the 95% interval of the AUC is above {PLANTED_MARGIN:.2f} and p is at most "
        f"{text_classifier.MAX_P}; separation by words is for information",
    )
    labelled = [source for source in sources if source.reference in (reference.PLANTED, reference.UNPERTURBED)]
    kinds = [(source, int(source.reference == reference.PLANTED)) for source in labelled]
    name = "planted / unperturbed"
    _evaluate_contrasts(check, [(name, kinds)], PLANTED_MARGIN, PLANTED_TARGET_AUC, name)
    return check


def _check_source_style(sources: Sequence[ItemSource]) -> Check:
    check = Check(
        "style and sources",
        "Does style alone, without numbers and content words, separate one source's outcomes of an action, without a known error, from "
        f"those of the others on held-out pairs? The check fails if the 95% interval of the AUC is above {SOURCE_MARGIN:.2f} and p is at "
        f"most {text_classifier.MAX_P}; separation by words is for information",
    )
    without_error = [source for source in sources if source.reference not in reference.WITH_ERROR]
    labels = sorted({source.label for source in without_error})
    # With two sources one contrast is enough: the other is its mirror image.
    contrasted_labels = [] if len(labels) < 2 else labels[:1] if len(labels) == 2 else labels
    other = labels[1] if len(labels) == 2 else "the others"
    kinds = {label: [(s, int(s.label == label)) for s in without_error] for label in contrasted_labels}
    contrasts = [(f"{label} / {other}", kinds_of_label) for label, kinds_of_label in kinds.items()]
    _evaluate_contrasts(check, contrasts, SOURCE_MARGIN, SOURCE_TARGET_AUC, "one source / the others")
    return check


StyleContrast = tuple[str, Sequence[tuple[ItemSource, int]]]


def _evaluate_contrasts(
    check: Check, contrasts: Sequence[StyleContrast], margin: float, target_auc: float, location: str
) -> None:
    """Evaluate each contrast with enough items. `location` is reported with a leak, so it must not name a source."""
    n_needed = text_classifier.count_needed_items(target_auc, margin)
    results = []
    looked_at: set[int] = set()
    powers: list[DetectionPower] = []
    for name, kinds in contrasts:
        rows = [(s, k, _outcome_text(s.item.payload)) for s, k in kinds]
        by_style, by_words = (
            text_classifier.sample_pairs(
                text_classifier.select_comparable([Example(reduce(t), k, str(s.pair), s.action) for s, k, t in rows]),
                SEED,
            )
            for reduce in (reduce_to_style, normalise_words)
        )
        n_of_kinds = text_classifier.count_kinds(by_style)
        if min(n_of_kinds) < text_classifier.MIN_ITEMS or len({e.pair for e in by_style}) < text_classifier.MIN_PAIRS:
            continue
        by_style_result = text_classifier.evaluate_classifier(by_style, SEED)
        by_words_result = text_classifier.evaluate_classifier(by_words, SEED)
        power = text_classifier.find_power(by_style, margin, by_style_result.chance, SEED)
        results.append(
            {
                "between": name,
                "style": _separation_to_dict(by_style_result),
                "words": _separation_to_dict(by_words_result),
                "smallest_auc": power.auc if power else None,
            }
        )
        if power:
            powers.append(power)
            looked_at |= {source.pk for source, _ in kinds}
        if by_style_result.is_above(margin):
            text = f"style alone: {_describe_separation(by_style_result)}, above {margin:.2f}"
            check.add_leaks([Leak(location, text)], 0)
        for feature, result in (("style", by_style_result), ("words", by_words_result)):
            if result.is_above(0.5):
                tell = f"{name}, {feature}: {_describe_separation(result)}"
                check.measured.setdefault("known_tells", []).append(tell)
    check.looked_at = len(looked_at)
    # The least powerful contrast decides: the study can detect no smaller effect in all of them.
    weakest = max(powers, key=lambda power: (power.auc, -power.n_detected), default=None)
    check.power = {
        "margin": margin,
        "power": text_classifier.POWER,
        "smallest_auc": weakest.auc if weakest else None,
        "found": weakest.n_detected if weakest else None,
        "trials": text_classifier.TRIALS,
        "planted": "a word that outcomes of one kind alone have, kinds exchanged by chance",
        "contrasts": len(contrasts),
        "contrasts_with_power": len(powers),
        "not_covered": NOT_COVERED,
        "wanted": target_auc,
        "items_of_each_kind_for_wanted": n_needed,
        "reason": "" if weakest else "too few",
    }
    if results:
        check.measured["contrasts"] = results
    if not powers and not check.leaks:
        # Without counts: how many share an action with the other kind could reveal the truth of a small study's items.
        check.skipped = (
            f"too few outcomes share an action with one of the other kind to detect even a word that all outcomes of one kind have; "
            f"at least {text_classifier.MIN_ITEMS} of each kind in {text_classifier.MIN_PAIRS} pairs are needed, and about {n_needed} of each "
            f"to confirm scores with an AUC of {target_auc:.2f} with a power of 80%"
        )


def _separation_to_dict(separation: Separation) -> dict[str, object]:
    rounded = {name: round(float(getattr(separation, name)), 4) for name in ("auc", "low", "high", "p")}
    return {"n": list(separation.n), "pairs": separation.pairs, **rounded}


def _describe_separation(separation: Separation) -> str:
    return (
        f"AUC {separation.auc:.2f} [{separation.low:.2f}, {separation.high:.2f}] of {sum(separation.n)} held-out outcomes of {separation.pairs} pairs, "
        f"p = {separation.p:.2g}"
    )
