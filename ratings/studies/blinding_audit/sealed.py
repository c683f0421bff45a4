"""What no rater may learn of a study's items, gathered from the rows that raters never see."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from django.conf import settings

from ratings.models import ItemSource, Study
from simulation.casts import casting

# Words of the unblinded side that no rater's page has any use for.
WORDS = (
    "secret:", "perturb", "unperturbed", "twin", "error_type", "error-type", "injector", "provenance", "itemsource",
    "fidelity", "ledger", "mat-", "lapses", "checklist",
)  # fmt: skip
_ANY_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, WORDS))})")
_LEAST = 6  # shorter values are ordinary words or numbers
_PLAIN_WORD = re.compile(r"[a-z]+")


class Sealed(NamedTuple):
    """`values` are told by what they are; `labels` are the casts and error types whose mere name would tell."""

    values: dict[str, str]
    labels: dict[str, str]

    def told_in(self, text: str) -> Iterator[tuple[str, str]]:
        """What of it this text tells: what it is, and the very text."""
        low = text.lower()
        yield from ((what, value) for value, what in self.values.items() if value in low)
        yield from ((what, label) for label, what in self.labels.items() if has_word(low, label))
        yield from (("the word", word) for word in sorted(set(_ANY_WORD.findall(low))))


def sealed(study: Study) -> Sealed:
    """Codes, digests, sources, and each planted error's kind, place, rule and explanation."""
    values: dict[str, str] = {}
    labels: dict[str, str] = {}
    rows = ItemSource.objects.filter(item__study=study)
    rows = rows.select_related("item", "twin", "imported", "transition__episode").defer(
        "item__payload", "item__context", "twin__outcome", "twin__diff", "transition__step", "transition__findings"
    )
    for source in rows:
        values |= {text.lower(): what for what, text in _values(source) if len(text) >= _LEAST}
        labels |= {word: what for what, word in _labels(source) if word}
    return Sealed(values, labels)


def _values(source: ItemSource) -> Iterator[tuple[str, str]]:
    yield "the pair's code", str(source.pair)
    yield "the item's own code", str(source.item.code)
    yield "the payload's digest", source.item.payload_sha256
    yield "the digest of what versions share", source.item.pair_sha256
    if source.transition:
        yield "the transition's code", str(source.transition.code)
        yield "the episode's code", str(source.transition.episode.code)
        yield "the transition's digest", source.transition.content_sha256
    if twin := source.twin:
        yield "the twin's code", str(twin.code)
        yield "the kind of the planted error", twin.kind if "_" in twin.kind or " " in twin.kind else ""
        yield "the place of the planted error", twin.field
        yield "the rule that was broken", twin.rule
        yield "the explanation of the planted error", twin.why
    if source.imported and len(source.imported.key) > _LEAST and not source.imported.key.isdigit():
        yield "the item's key in the imported file", source.imported.key


def _labels(source: ItemSource) -> Iterator[tuple[str, str]]:
    """Names of sources that are no ordinary words, and error types."""
    label = source.label.lower()
    if label in casting.CASTS or not _PLAIN_WORD.fullmatch(label):
        yield "the source", label
    if source.perturbation != "none":
        yield "the error type", source.perturbation
    if source.experiment and "-" in source.experiment:
        yield "the experiment's short name", source.experiment.lower()


@cache
def interface_words() -> frozenset[str]:
    """Words that the rating room's own templates and scripts use: they say nothing of any item."""
    places = [*(settings.BASE_DIR / "templates").glob("ratings/*.html"), settings.BASE_DIR / "templates" / "base.html"]
    places += [*(settings.BASE_DIR / "templates" / "registration").glob("*.html")]
    places += [*(settings.BASE_DIR / "static").glob("*.js")]
    return frozenset(word for path in places for word in re.findall(r"[a-z]+", path.read_text().lower()))


def has_word(text: str, word: str) -> bool:
    """Whether it stands there by itself, in small letters."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
