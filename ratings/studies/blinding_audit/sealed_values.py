"""What no rater may learn about a study's items, collected from the rows that raters never see."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from django.conf import settings

from ratings.models import ItemSource, Study
from simulation.casts import casting

# Words about the origin of items, which no rater's page needs.
SEALED_WORDS = (
    "secret:", "perturb", "unperturbed", "twin", "error_type", "error-type", "injector", "provenance", "itemsource",
    "fidelity", "ledger", "mat-", "lapses", "checklist",
)  # fmt: skip
_ANY_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, SEALED_WORDS))})")
_MIN_LENGTH = 6  # characters; shorter values are ordinary words or numbers
_PLAIN_WORD = re.compile(r"[a-z]+")


class SealedValues(NamedTuple):
    """`values` reveal an origin wherever they occur. `labels`, such as casts and error types, reveal it as separate
    words.
    """

    values: dict[str, str]
    labels: dict[str, str]

    def find_in(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield each sealed value that this text contains, preceded by its kind."""
        low = text.lower()
        yield from ((what, value) for value, what in self.values.items() if value in low)
        yield from ((what, label) for label, what in self.labels.items() if contains_word(low, label))
        yield from (("the word", word) for word in sorted(set(_ANY_WORD.findall(low))))


def collect_sealed_values(study: Study) -> SealedValues:
    """Return the sealed values: codes, digests, sources, and the kind, location, rule and explanation of each planted
    error.
    """
    values: dict[str, str] = {}
    labels: dict[str, str] = {}
    rows = ItemSource.objects.filter(item__study=study)
    # Without the large documents: none of their text is compared here.
    rows = rows.select_related("item", "twin", "imported", "transition__episode").defer(
        "item__payload", "item__context", "twin__outcome", "twin__diff", "transition__step", "transition__findings"
    )
    for source in rows:
        values |= {text.lower(): what for what, text in _iter_values(source) if len(text) >= _MIN_LENGTH}
        labels |= {word: what for what, word in _iter_labels(source) if word}
    return SealedValues(values, labels)


def _iter_values(source: ItemSource) -> Iterator[tuple[str, str]]:
    yield "the pair's code", str(source.pair)
    yield "the item's own code", str(source.item.code)
    yield "the payload's digest", source.item.payload_sha256
    yield "the digest of the pair", source.item.pair_sha256
    if source.transition:
        yield "the transition's code", str(source.transition.code)
        yield "the episode's code", str(source.transition.episode.code)
        yield "the transition's digest", source.transition.content_sha256
    if twin := source.twin:
        yield "the twin's code", str(twin.code)
        yield "the kind of the planted error", twin.kind if "_" in twin.kind or " " in twin.kind else ""
        yield "the location of the planted error", twin.field
        yield "the rule that was broken", twin.rule
        yield "the explanation of the planted error", twin.explanation
    # A number as a key would be found in every second text.
    if source.imported and len(source.imported.key) > _MIN_LENGTH and not source.imported.key.isdigit():
        yield "the item's key in the imported file", source.imported.key


def _iter_labels(source: ItemSource) -> Iterator[tuple[str, str]]:
    """Yield the names of sources that are not ordinary words, and error types."""
    label = source.label.lower()
    if label in casting.CASTS or not _PLAIN_WORD.fullmatch(label):
        yield "the source", label
    if source.perturbation != "none":
        yield "the error type", source.perturbation
    if source.experiment and "-" in source.experiment:
        yield "the experiment's short name", source.experiment.lower()


@cache
def load_interface_words() -> frozenset[str]:
    """Return the words of the rating pages' own templates and scripts, which do not depend on any item."""
    files = [*(settings.BASE_DIR / "templates").glob("ratings/*.html"), settings.BASE_DIR / "templates" / "base.html"]
    files += [*(settings.BASE_DIR / "templates" / "registration").glob("*.html")]
    files += [*(settings.BASE_DIR / "static").glob("*.js")]
    return frozenset(word for path in files for word in re.findall(r"[a-z]+", path.read_text().lower()))


def contains_word(text: str, word: str) -> bool:
    """Return whether the text, in lower case, contains this as a separate word."""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
