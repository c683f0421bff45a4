"""What an item's own text might give away: suspicious words, names of sources, and words that its secret says as well.

A hit is a question to a person, not a verdict: until somebody releases the item, it stays out of the study.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.blinding import Payload
from ratings.blinding.source_names import Finding, Lexicon
from ratings.models import Quarantine, Study, StudyEvent
from ratings.models.study_events import QuarantineDecided
from ratings.protocol import Found
from ratings.studies.pool import source_lexicon
from simulation.lab import giving_away

Reason = tuple[str, str]  # the place, and what was found there


class Secret(NamedTuple):
    """What was said of a planted error, and the outcome without it, whose words both may well share."""

    text: str = ""
    original: Any = None


NO_SECRET = Secret()
MOST_SAID = 200  # characters about one thing
KINDS = {
    "model": "the name of a model",
    "maker": "the name of a maker of models",
    "cast": "the name of a cast",
    "source": "the name of a source of imported items",
    "speech": "words of a language model about itself",
}


class Held(NamedTuple):
    """A candidate that is kept out, why, and what a person has decided about it ("": nothing yet)."""

    found: Found
    digest: str
    reasons: list[Reason]
    decision: str
    names: tuple[str, ...] = ()  # as the item spells them; each may be declared a thing in the laboratory


class DecisionError(ValueError):
    """This cannot be decided now; the message says why, for people."""


def sorted_out(every: Iterable[tuple[Found, Secret]], study: Study | None) -> tuple[list[Found], list[Held]]:
    """What may be used, and what is held. Only what a person released in this very study passes in spite of a hit."""
    decisions = dict(study.quarantine.values_list("payload_sha256", "decision")) if study else {}
    names = lexicon(study)
    usable, held = [], []
    for found, secret in every:
        named = list(names_in(found.payload, found.context, names))
        why = [*reasons(found.payload, found.context, secret), *_said(named)]
        digest = found.candidate.content
        decision = decisions.get(digest, "")
        if decision == "dropped" or (why and decision != "released"):
            texts_found = tuple(dict.fromkeys(finding.text for _, finding in named))
            held.append(Held(found, digest, why, decision, texts_found))
        else:
            usable.append(found)
    return usable, held


def reasons(payload: Payload, context: Payload, secret: Secret = NO_SECRET) -> list[Reason]:
    """Every place where a rater could read a suspicious word or six words that the secret says too.

    The secret may quote, and what was brought to the step (materials, action, goal) or stands in the original may be
    said by both.
    """
    shown = [*texts(payload), *texts(context, "context")]
    found = [(place, f"the word “{word}”") for place, text in shown for word in giving_away.hints(text)]
    if runs := giving_away.own_runs(secret.text):
        found += _shared(shown, payload, context, secret, runs)
    return found


def lexicon(study: Study | None, labels: Iterable[str] = ()) -> Lexicon:
    """Return the names that items of this study must not give: the site's, and the sources of its imported items."""
    imported = study.imported_items.order_by().values_list("label", flat=True).distinct() if study else ()
    return source_lexicon.of_site({*labels, *imported})


def names_in(payload: Payload, context: Payload, names: Lexicon) -> Iterator[tuple[str, Finding]]:
    """Yield every place in which a rater could read the name of a model, maker, cast or source, with the name."""
    for place, text in [*texts(payload), *texts(context, "context")]:
        yield from ((place, finding) for finding in names.find(text))


def name_reasons(payload: Payload, context: Payload, names: Lexicon) -> list[Reason]:
    """Return the names in an item as reasons to hold it."""
    return _said(names_in(payload, context, names))


def _said(named: Iterable[tuple[str, Finding]]) -> list[Reason]:
    return [(place, f"{KINDS[finding.kind]}: “{finding.text}”") for place, finding in named]


def declared(study: Study) -> dict[str, dict[str, str]]:
    """Return the names that people declared things in the laboratory: for each released item, name and what it is."""
    rows = study.quarantine.filter(decision="released").values_list("payload_sha256", "things")
    return {digest: dict(things) for digest, things in rows if things}


def _shared(
    shown: Iterable[Reason], payload: Payload, context: Payload, secret: Secret, runs: set[giving_away.Run]
) -> Iterator[Reason]:
    hits = [(place, same) for place, text in shown if (same := giving_away.runs(text) & runs)]
    if not hits:
        return
    brought = [payload.get(key) for key in ("action", "before", "goal")]
    known = giving_away.runs(*(text for _, text in texts([*brought, context, secret.original])))
    for place, same in hits:
        if own := sorted(same - known):
            yield place, f"six words of its own explanation: “{' '.join(own[0])}”"


def texts(shown: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text that a rater reads, with its place."""
    if isinstance(shown, str):
        yield place, shown
    elif isinstance(shown, Mapping):
        for key in shown:
            yield from texts(shown[key], f"{place}.{key}" if place else str(key))
    elif isinstance(shown, list | tuple):
        for at, part in enumerate(shown):
            yield from texts(part, f"{place}[{at}]")


@transaction.atomic
def decide(study: Study, held: Held, decision: str, by: User, things: Mapping[str, str] | None = None) -> Quarantine:
    """Release an item that was held into this study, or drop it. Logged; may be changed until the study opens.

    `things` says of names in a released item what they are in the laboratory: the audit then accepts them in this item.
    """
    locked = Study.objects.select_for_update().get(pk=study.pk)
    if decision not in ("released", "dropped"):
        raise DecisionError("Release it or drop it")
    if not locked.is_draft:
        raise DecisionError("The study has been opened: its items are frozen")
    known = _known_things(held, decision, things or {})
    row, _ = Quarantine.objects.update_or_create(
        study=study,
        payload_sha256=held.digest,
        defaults={**_fields(held), "decision": decision, "things": known, "by": by, "at": timezone.now()},
    )
    content = QuarantineDecided(
        decision="released" if decision == "released" else "dropped",
        digest=held.digest[:12],
        reason=held.reasons[0][1] if held.reasons else "",
        things=tuple((name, meaning) for name, meaning in known),
    )
    StudyEvent.record(study, content, by)
    return row


def _known_things(held: Held, decision: str, things: Mapping[str, str]) -> list[list[str]]:
    """Return what is said of each name, in order. DecisionError where it is said of no name of the item, or too much."""
    said = {name: " ".join(text.split()) for name, text in things.items() if text.strip()}
    if said and decision != "released":
        raise DecisionError("Only in an item that is released can a name be declared a thing in the laboratory")
    if strange := sorted(set(said) - set(held.names)):
        raise DecisionError(f"“{strange[0][:60]}” is no name that was found in this item")
    if long := [name for name, text in said.items() if len(text) > MOST_SAID]:
        raise DecisionError(f"What “{long[0]}” is in the laboratory: at most {MOST_SAID} characters")
    return [[name, said[name]] for name in held.names if name in said]


def record(study: Study, held: Sequence[Held]) -> None:
    """Keep what stayed out undecided when the study opened. Part of a transaction."""
    waiting = {one.digest: one for one in held if not one.decision}
    rows = [Quarantine(study=study, payload_sha256=digest, **_fields(one)) for digest, one in waiting.items()]
    Quarantine.objects.bulk_create(rows, ignore_conflicts=True)


def _fields(held: Held) -> dict[str, Any]:
    return {"payload": held.found.payload, "reasons": [list(reason) for reason in held.reasons]}
