"""Names that reveal a source on this site: those of the data file, and those of the site's models, casts and imports."""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django.conf import settings

from ratings.blinding import source_names
from ratings.blinding.source_names import Lab, Lexicon, Name, Written
from simulation.casts import roster
from simulation.models import LanguageModel
from simulation.runs.queueing import PERSON_CAST

FILE = "source_names.json"
_WORD = re.compile(r"[a-z]+")


class NamesFileError(ValueError):
    """The data file of names cannot be used; the message names the file and every problem."""


def of_site(labels: Iterable[str] = ()) -> Lexicon:
    """Return the lexicon of this site, in two queries. `labels` are names of the sources of imported items."""
    models: set[str] = set()
    for name, provider, model_id, aliases in LanguageModel.objects.values_list(
        "name", "provider", "model_id", "aliases"
    ):
        models |= {text for text in (name, provider, model_id, model_id.rpartition("/")[2], *aliases) if text}
    # The cast of people at the bench has a name that is an ordinary word.
    casts = {name for name in roster.names() if name != PERSON_CAST}
    return built(frozenset(models), frozenset(casts), frozenset(labels))


# A lexicon compiles a pattern for its names; a site has few sets of names at a time.
@lru_cache(maxsize=8)
def built(models: frozenset[str], casts: frozenset[str], sources: frozenset[str]) -> Lexicon:
    """Return the lexicon of the data file and these names. A name that is in the file has the kind stated there."""
    names_file = data()
    site_names = [(models, "name"), (casts, "cast"), (sources, "source")]
    # The file's names first: the first of two equal names wins.
    names = [*names_file.names, *(Name(text, kind) for texts, kind in site_names for text in sorted(texts))]
    return Lexicon(names, names_file.laboratory, names_file.other_words, ordinary())


@lru_cache(maxsize=1)
def ordinary() -> frozenset[str]:
    """Return the words that an outcome may contain: those of this laboratory's own actions and experiments, and the file's."""
    words = {word.casefold() for word in data().ordinary_words}
    for folder in ("actions", "experiments"):
        for path in sorted((settings.FIXTURES_DIR / folder).glob("*.json")):
            words |= set(_WORD.findall(path.read_text("utf-8").casefold()))
    return frozenset(words)


def allowed() -> list[Lab]:
    """Return the laboratory's own words that are names elsewhere, each with the reason, as pages show them."""
    return data().laboratory


@lru_cache(maxsize=1)
def data() -> Written:
    """Return the contents of the data file. Raises NamesFileError, which names the file and every problem."""
    path = settings.FIXTURES_DIR / FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return source_names.read(document)
    except (OSError, ValueError) as error:
        raise NamesFileError(f"{path}: {error}") from error
