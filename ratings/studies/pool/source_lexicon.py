"""Names that reveal a source on this site: those of the data file, and those of the site's models, casts and imports."""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django.conf import settings

from ratings.blinding import source_names
from ratings.blinding.source_names import LabWord, Lexicon, NameFile, SourceName
from simulation.casts import cast_availability
from simulation.models import LanguageModel
from simulation.runs.create import HUMAN_CAST

NAMES_FILE = "source_names.json"
_WORD = re.compile(r"[a-z]+")


class NamesFileError(ValueError):
    """The data file of names cannot be used; the message names the file and every problem."""


def build_site_lexicon(labels: Iterable[str] = ()) -> Lexicon:
    """Return the lexicon of this site, in two queries. `labels` are names of the sources of imported items."""
    models: set[str] = set()
    for name, provider, model_id, aliases in LanguageModel.objects.values_list(
        "name", "provider", "model_id", "aliases"
    ):
        models |= {text for text in (name, provider, model_id, model_id.rpartition("/")[2], *aliases) if text}
    # The cast of people at the bench has a name that is an ordinary word.
    casts = {name for name in cast_availability.list_names() if name != HUMAN_CAST}
    return build_lexicon(frozenset(models), frozenset(casts), frozenset(labels))


# A lexicon compiles a pattern for its names; a site has few sets of names at a time.
@lru_cache(maxsize=8)
def build_lexicon(models: frozenset[str], casts: frozenset[str], sources: frozenset[str]) -> Lexicon:
    """Return the lexicon of the data file and these names. A name that is in the file has the kind stated there."""
    names_file = load_names_file()
    site_names = [(models, "name"), (casts, "cast"), (sources, "source")]
    # The file's names first: the first of two equal names wins.
    names = [*names_file.names, *(SourceName(text, kind) for texts, kind in site_names for text in sorted(texts))]
    return Lexicon(names, names_file.laboratory, names_file.other_words, load_ordinary_words())


@lru_cache(maxsize=1)
def load_ordinary_words() -> frozenset[str]:
    """Return the words that ordinary outcomes contain: those of the laboratory's actions and experiments, and of the
    data file.
    """
    words = {word.casefold() for word in load_names_file().ordinary_words}
    for folder in ("actions", "experiments"):
        for path in sorted((settings.FIXTURES_DIR / folder).glob("*.json")):
            words |= set(_WORD.findall(path.read_text("utf-8").casefold()))
    return frozenset(words)


def list_laboratory_words() -> list[LabWord]:
    """Return the laboratory's own words that are names elsewhere, each with the reason, as pages show them."""
    return load_names_file().laboratory


@lru_cache(maxsize=1)
def load_names_file() -> NameFile:
    """Return the contents of the data file. Raises NamesFileError, which names the file and every problem."""
    path = settings.FIXTURES_DIR / NAMES_FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return source_names.parse_name_file(document)
    except (OSError, ValueError) as error:
        raise NamesFileError(f"{path}: {error}") from error
