"""Find what an item's own text might reveal: suspicious words, names of sources, and words of its secret.

A match is a question to a person, not a verdict. Until somebody releases the item, the study does not use it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.blinding import Payload, source_names
from ratings.blinding.source_names import Lexicon, NameFile, NameFinding, SourceName
from ratings.models import Quarantine, Study, StudyEvent
from ratings.models.study_events import QuarantineDecided
from ratings.protocol import CandidateItem
from simulation.casts import cast_availability
from simulation.lab.planted_errors import revealing_words
from simulation.models import LanguageModel
from simulation.runs.people import HUMAN_CAST

NAMES_FILE = "source_names.json"
_WORD = re.compile(r"[a-z]+")


class NamesFileError(ValueError):
    """The data file of names cannot be used; the message names the file and every problem."""


def list_source_names(study: Study | None, labels: Iterable[str] = ()) -> tuple[frozenset[str], ...]:
    """Return the names that items of this study must not contain: of models, of casts, of the sources of its imports."""
    models: set[str] = set()
    rows = LanguageModel.objects.values_list("name", "provider", "model_id", "aliases")
    for name, provider, model_id, aliases in rows:
        models |= {text for text in (name, provider, model_id, model_id.rpartition("/")[2], *aliases) if text}
    # The cast of people at the bench has a name that is an ordinary word.
    casts = {name for name in cast_availability.list_names() if name != HUMAN_CAST}
    imported = study.imported_items.order_by().values_list("label", flat=True).distinct() if study else ()
    return frozenset(models), frozenset(casts), frozenset({*labels, *imported})


# A lexicon compiles a pattern for its names; a site has few sets of names at a time.
@lru_cache(maxsize=8)
def compile_lexicon(models: frozenset[str], casts: frozenset[str], sources: frozenset[str]) -> Lexicon:
    """Return the lexicon of the data file and these names. A name that is in the file has the kind stated there."""
    names_file = load_names_file()
    site_names = [(models, "name"), (casts, "cast"), (sources, "source")]
    # The file's names first: the first of two equal names wins.
    names = [*names_file.names, *(SourceName(text, kind) for texts, kind in site_names for text in sorted(texts))]
    return Lexicon(names, names_file.laboratory, names_file.other_words, load_ordinary_words())


@lru_cache(maxsize=1)
def load_ordinary_words() -> frozenset[str]:
    """Return the words of the laboratory's actions and experiments, and those of the data file."""
    words = {word.casefold() for word in load_names_file().ordinary_words}
    for folder in ("actions", "experiments"):
        for path in sorted((settings.FIXTURES_DIR / folder).glob("*.json")):
            words |= set(_WORD.findall(path.read_text("utf-8").casefold()))
    return frozenset(words)


@lru_cache(maxsize=1)
def load_names_file() -> NameFile:
    """Return the contents of the data file. Raises NamesFileError, which names the file and every problem."""
    path = settings.FIXTURES_DIR / NAMES_FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return source_names.parse_name_file(document)
    except (OSError, ValueError) as error:
        raise NamesFileError(f"{path}: {error}") from error


Reason = tuple[str, str]  # the location in the item, and what was found there


class Secret(NamedTuple):
    """The explanation of a planted error, and the outcome without the error, which may share words with it."""

    text: str = ""
    original: Any = None


NO_SECRET = Secret()
MAX_MEANING_LENGTH = 200  # characters about one name
NAME_KINDS = {
    "model": "the name of a model",
    "maker": "the name of a maker of models",
    "cast": "the name of a cast",
    "source": "the name of a source of imported items",
    "speech": "words of a language model about itself",
}


class HeldItem(NamedTuple):
    """A candidate in quarantine, the reasons, and the decision of a person about it ("" if there is none)."""

    found: CandidateItem
    digest: str
    reasons: list[Reason]
    decision: str
    names: tuple[str, ...] = ()  # as spelt in the item; each may be declared a thing in the laboratory


class DecisionError(ValueError):
    """The decision is not possible now. The message gives the reason and is shown to people."""


def separate_held(
    every: Iterable[tuple[CandidateItem, Secret]], study: Study | None
) -> tuple[list[CandidateItem], list[HeldItem]]:
    """Return the candidates that may be used, and those that are held in quarantine."""
    decisions = dict(study.quarantine.values_list("payload_sha256", "decision")) if study else {}
    screen = TextScreen(build_lexicon(study))
    usable, held = [], []
    for found, secret in every:
        reasons_to_hold, names_found = screen.examine_item(found.payload, found.context, secret)
        digest = found.candidate.content
        # A release counts in this study only: elsewhere another person is responsible for the blinding.
        decision = decisions.get(digest, "")
        if decision == "dropped" or (reasons_to_hold and decision != "released"):
            held.append(HeldItem(found, digest, reasons_to_hold, decision, names_found))
        else:
            usable.append(found)
    return usable, held


class TextScreen:
    """Examines the texts of many items, each distinct text once.

    The items of a study share most of their texts, and nearly all of these reveal nothing: their locations, which take
    longer to build than to check, are built only for items with a text that has to be reported.
    """

    def __init__(self, names: Lexicon) -> None:
        self._names = names
        self._harmless: set[str] = set()

    def examine_item(
        self, payload: Payload, context: Payload, secret: Secret = NO_SECRET
    ) -> tuple[list[Reason], tuple[str, ...]]:
        """Return the reasons to hold the item, and the names that it contains, as spelt in it."""
        if not secret.text and not self._is_suspicious(payload, context):
            return [], ()
        findings = list(find_names(payload, context, self._names))
        names_found = tuple(dict.fromkeys(finding.text for _, finding in findings))
        return [*find_reasons(payload, context, secret), *_describe_findings(findings)], names_found

    def _is_suspicious(self, payload: Payload, context: Payload) -> bool:
        texts: set[str] = set()
        _collect_texts(payload, texts)
        _collect_texts(context, texts)
        new_texts = texts - self._harmless
        suspicious = {
            text for text in new_texts if revealing_words.find_revealing_words(text) or self._names.find_names(text)
        }
        self._harmless |= new_texts - suspicious
        return bool(suspicious)


def _collect_texts(shown: Any, texts: set[str]) -> None:
    """Add every text of a payload that a rater reads: those of `iter_texts`, without their locations."""
    for value in shown.values() if isinstance(shown, dict) else shown:
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, (dict, list, tuple)):
            _collect_texts(value, texts)


def find_reasons(payload: Payload, context: Payload, secret: Secret = NO_SECRET) -> list[Reason]:
    """Return every location where a rater could read a suspicious word, or six words in a row of the secret.

    Words that also occur in the materials, the action, the goal or the original outcome are not reported.
    """
    texts_shown = [*iter_texts(payload), *iter_texts(context, "context")]
    words = ((location, word) for location, text in texts_shown for word in revealing_words.find_revealing_words(text))
    matches = [(location, f"the word “{word}”") for location, word in words]
    if runs := revealing_words.unquoted_runs(secret.text):
        matches += _find_shared_words(texts_shown, payload, context, secret, runs)
    return matches


def build_lexicon(study: Study | None, labels: Iterable[str] = ()) -> Lexicon:
    """Return the lexicon of this site, in three queries. `labels` are further names of sources."""
    return compile_lexicon(*list_source_names(study, labels))


def find_names(payload: Payload, context: Payload, names: Lexicon) -> Iterator[tuple[str, NameFinding]]:
    """Yield each name of a source that a rater could read in the item, preceded by its location."""
    for location, text in [*iter_texts(payload), *iter_texts(context, "context")]:
        yield from ((location, finding) for finding in names.find_names(text))


def find_name_reasons(payload: Payload, context: Payload, names: Lexicon) -> list[Reason]:
    """Return the names in an item as reasons to hold it."""
    return _describe_findings(find_names(payload, context, names))


def _describe_findings(named: Iterable[tuple[str, NameFinding]]) -> list[Reason]:
    return [(place, f"{NAME_KINDS[finding.kind]}: “{finding.text}”") for place, finding in named]


def load_declared_things(study: Study) -> dict[str, dict[str, str]]:
    """Return, by the digest of each released item, the words that people confirmed as laboratory objects, and meanings."""
    rows = study.quarantine.filter(decision="released").values_list("payload_sha256", "things")
    return {digest: dict(things) for digest, things in rows if things}


def _find_shared_words(
    shown: Iterable[Reason], payload: Payload, context: Payload, secret: Secret, runs: set[revealing_words.Run]
) -> Iterator[Reason]:
    matches = [(place, same) for place, text in shown if (same := revealing_words.word_runs(text) & runs)]
    if not matches:
        return
    inputs = [payload.get(key) for key in ("action", "before", "goal")]
    known_runs = revealing_words.word_runs(*(text for _, text in iter_texts([*inputs, context, secret.original])))
    for place, same in matches:
        if secret_only := sorted(same - known_runs):
            yield place, f"six words of its own explanation: “{' '.join(secret_only[0])}”"


def iter_texts(shown: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text that a rater reads, with its location."""
    if isinstance(shown, str):
        yield place, shown
    elif isinstance(shown, Mapping):
        for key in shown:
            yield from iter_texts(shown[key], f"{place}.{key}" if place else str(key))
    elif isinstance(shown, list | tuple):
        for index, part in enumerate(shown):
            yield from iter_texts(part, f"{place}[{index}]")


@transaction.atomic
def record_decision(
    study: Study, held: HeldItem, decision: str, by: User, things: Mapping[str, str] | None = None
) -> Quarantine:
    """Release an item that was held for this study, or drop it. The decision is logged, and final once the study opens.

    `things` gives the meaning in the laboratory of names in a released item: the audit then accepts them in this
    item. Raises DecisionError if the study is open or a meaning is not allowed.
    """
    locked_study = Study.objects.select_for_update().get(pk=study.pk)
    if decision not in ("released", "dropped"):
        raise DecisionError("Choose to release the item or to drop it")
    if not locked_study.is_draft:
        raise DecisionError("The study has been opened, so its items are frozen")
    known_things = _check_things(held, decision, things or {})
    columns = {"decision": decision, "things": known_things, "by": by, "at": timezone.now()}
    columns |= _quarantine_columns(held)
    row, _ = Quarantine.objects.update_or_create(study=study, payload_sha256=held.digest, defaults=columns)
    content = QuarantineDecided(
        decision="released" if decision == "released" else "dropped",
        # Enough to find the item; the log shows neither its text nor its source.
        digest=held.digest[:12],
        reason=held.reasons[0][1] if held.reasons else "",
        things=tuple((name, meaning) for name, meaning in known_things),
    )
    StudyEvent.record_event(study, content, by)
    return row


def _check_things(held: HeldItem, decision: str, things: Mapping[str, str]) -> list[list[str]]:
    """Return the meaning of each name in the item. Raises DecisionError for other names and long meanings."""
    meanings = {name: " ".join(text.split()) for name, text in things.items() if text.strip()}
    if meanings and decision != "released":
        raise DecisionError("A name can be declared a thing in the laboratory only if its item is released")
    if unknown_names := sorted(set(meanings) - set(held.names)):
        raise DecisionError(f"“{unknown_names[0][:60]}” was not found as a name in this item")
    if too_long := [name for name, text in meanings.items() if len(text) > MAX_MEANING_LENGTH]:
        raise DecisionError(f"The meaning of “{too_long[0]}” is too long: use at most {MAX_MEANING_LENGTH} characters")
    return [[name, meanings[name]] for name in held.names if name in meanings]


def store_undecided(study: Study, held: Sequence[HeldItem]) -> None:
    """Store the items that were still undecided when the study opened, in the caller's transaction."""
    undecided = {item.digest: item for item in held if not item.decision}
    rows = (Quarantine(study=study, payload_sha256=key, **_quarantine_columns(one)) for key, one in undecided.items())
    # Items added later may have been held at opening as well: their row exists.
    Quarantine.objects.bulk_create(rows, ignore_conflicts=True)


def _quarantine_columns(held: HeldItem) -> dict[str, Any]:
    return {"payload": held.found.payload, "reasons": [list(reason) for reason in held.reasons]}
