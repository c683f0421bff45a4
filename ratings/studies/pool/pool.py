"""What a study can take its items from: rows of the simulation and imported ones, blinded, each with its source."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import F, Prefetch, QuerySet

from ratings.blinding import Payload, blind_context, blind_evidence, blind_transition, pair_digest, payload_digest
from ratings.blinding.allow_list import targets
from ratings.models import EVIDENCE, TRANSITION, Study
from ratings.protocol import Found, StudyProtocol
from ratings.protocol.planning import Alike, Candidate, distinct
from ratings.protocol.protocols import SourceRequest
from ratings.protocol.reference import UNPERTURBED, find_reference
from ratings.studies import crossover
from ratings.studies.pool import imported, quarantine
from ratings.studies.pool.quarantine import NO_SECRET, Held, Secret
from ratings.studies.seats import readable_elsewhere
from simulation.casts import casting, roster
from simulation.models import CatalogueEntry, Episode, EvidenceReview, Experiment, Run, Transition, Twin
from simulation.runs import vetting
from simulation.runs.queueing import PERSON_CAST

__all__ = [
    "Found",
    "Look",
    "Stock",
    "Stocks",
    "count_left_out",
    "find",
    "known_casts",
    "known_experiments",
    "look",
    "separate_shown",
    "separate_unblinded",
    "settle",
    "stock",
    "stocked_casts",
    "take_stock",
]


class Stock(NamedTuple):
    """How many items a study wants of a source, and how many different ones there are.

    `unvetted` twins wait for a person, `held` items for a word on what might give them away, and `left_out` ones stand in
    an unblinded study: none of these is in `have`. `shown` ones are in it: an unblinded study of the other kind shows their
    episode, so its readers are not dealt them.
    """

    source: SourceRequest
    have: int
    unvetted: int = 0
    held: int = 0
    left_out: int = 0
    shown: int = 0

    @property
    def enough(self) -> bool:
        return self.have >= self.source.count


class Look(NamedTuple):
    """All that the pool holds for a study: what it may use, what is held back, and twins that nobody has vetted.

    `left_out` could be used but for versions of them that stand in an unblinded study.
    """

    usable: list[Found]
    held: list[Held]
    unvetted: Counter[tuple[str, str]]
    left_out: list[Found]


class Stocks(NamedTuple):
    """What the pool holds for each source of a study, and how many different items are left out in all, imported ones
    included. `shown`: of how many an unblinded study of the other kind shows the episode; `alike`: cases of a crossover that
    are left out because both sources gave the identical outcome."""

    lines: list[Stock]
    left_out: int
    shown: int = 0
    alike: Alike = Alike()


def known_casts() -> list[str]:
    """Every cast an item may come from; a person at the bench is one."""
    return [*roster.names(), PERSON_CAST]


def stocked_casts() -> list[str]:
    """Those a study is likely to ask for: the offline ones, and whoever has played or made twins here."""
    played = Episode.objects.order_by("cast").values_list("cast", flat=True).distinct()
    made = Twin.objects.order_by("cast").values_list("cast", flat=True).distinct()
    known = set(known_casts())
    return [*casting.CASTS, *sorted(({*played, *made} & known) - set(casting.CASTS))]


def known_experiments() -> list[str]:
    return list(Experiment.objects.order_by("slug").values_list("slug", flat=True))


def find(protocol: StudyProtocol, study: Study | None = None) -> list[Found]:
    """Everything this study could use: vetted, and with nothing in its text that might give it away. Writes nothing."""
    return look(protocol, study).usable


def look(protocol: StudyProtocol, study: Study | None = None) -> Look:
    """What the study could use, and what it could use once a person has decided. Imported items need their study."""
    every = [*(_evidence(protocol) if protocol.kind == EVIDENCE else _transitions(protocol))]
    every += [(found, NO_SECRET) for found in (imported.found(study) if study else ())]
    usable, held = quarantine.sorted_out(every, study)
    usable, left_out = (usable, []) if protocol.allow_unblinded else separate_unblinded(usable)
    return Look(usable, held, _unvetted(protocol), left_out)


def separate_unblinded(every: Sequence[Found]) -> tuple[list[Found], list[Found]]:
    """Return what stands in no unblinded study, and what does, itself or another version of it."""
    known = readable_elsewhere.find_unblinded_pairs() if every else set()
    pairs = [pair_digest(found.payload) if known else "" for found in every]
    sealed = [found for found, pair in zip(every, pairs, strict=True) if pair not in known]
    return sealed, [found for found, pair in zip(every, pairs, strict=True) if pair in known]


def stock(protocol: StudyProtocol, study: Study | None = None) -> list[Stock]:
    """For each source of the study, how many items it wants and how many there are."""
    return take_stock(protocol, study).lines


def take_stock(protocol: StudyProtocol, study: Study | None = None) -> Stocks:
    """Return the same, with the number of items that are left out."""
    seen = look(protocol, study)
    have = _count_by_source(seen.usable)
    held = Counter(one.found.candidate.source for one in seen.held if one.decision == "")
    left_out = _count_by_source(seen.left_out)
    shown = _count_by_source(separate_shown(seen.usable, protocol.kind))
    sources = [(source, (source.cast, source.perturbation)) for source in protocol.sources]
    lines = [Stock(source, have[key], seen.unvetted[key], held[key], left_out[key], shown[key])
             for source, key in sources]  # fmt: skip
    total, same = sum(line.shown for line in lines), crossover.count_alike(seen.usable, protocol)
    return Stocks(lines, count_left_out(seen.left_out, protocol), total, same)


def separate_shown(every: Sequence[Found], kind: str) -> list[Found]:
    """Return those of a study of this kind whose episode stands in an unblinded study of the other kind."""
    known = readable_elsewhere.find_origins_shown(kind) if every else set()
    origin = "transition_id" if kind == TRANSITION else "review_id"
    return [found for found in every if found.origin.get(origin) in known]


def count_left_out(left_out: Sequence[Found], protocol: StudyProtocol) -> int:
    """Return how many different items of the study's sources, or imported into it, are left out."""
    asked = {(source.cast, source.perturbation) for source in protocol.sources}
    wanted = [found for found in left_out if found.origin.get("imported_id") or found.candidate.source in asked]
    return len({found.candidate.content for found in wanted})


def _count_by_source(every: Sequence[Found]) -> Counter[tuple[str, str]]:
    """Count different items; imported ones are no part of what the pool holds, but of their study."""
    return Counter(candidate.source for candidate in distinct(found.candidate for found in every))


def settle(study: Study, chosen: Sequence[Found], held: Sequence[Held] = ()) -> None:
    """Log what the study takes: rules vouching for its twins, and what stayed out undecided when it opened.

    Part of the transaction that opens it or adds to it.
    """
    twins = [found.origin["twin_id"] for found in chosen if found.origin.get("twin_id")]
    vetting.accept_by_rule(Twin.objects.filter(pk__in=twins))
    quarantine.record(study, held)


Told = tuple[Found, Secret]  # with what only the simulator may know of it


def _transitions(protocol: StudyProtocol) -> Iterator[Told]:
    """Accepted steps and their vetted twins. A twin that reads like its original shows no error: it is left out."""
    originals = _casts(protocol, "none")
    earlier = _Earlier(wanted=True in protocol.display.context)
    plain: dict[str, str] = {}
    simulated_by_models = _simulated_by_models()
    for row in _usable(protocol).filter(episode__cast__in=originals):
        if row.content_sha256 not in plain:
            payload = blind_transition(row.step)
            plain[row.content_sha256] = digest = payload_digest(payload)
            candidate = _candidate(row, (row.episode.cast, "none"), payload, digest)
            truth = None if row.episode.run_id in simulated_by_models else True
            origin: dict[str, Any] = {"transition_id": row.pk, "truth": truth, "reference": UNPERTURBED, "target": []}
            yield Found(candidate, payload, earlier.context(row), origin), Secret(_told_apart(row.step["outcome"]))
    for twin in _twins(protocol):
        row = twin.transition
        if row.content_sha256 not in plain:
            plain[row.content_sha256] = payload_digest(blind_transition(row.step))
        payload = blind_transition(row.step, twin.outcome)
        if (content := payload_digest(payload)) != plain[row.content_sha256]:
            yield _found_twin(twin, payload, content, earlier.context(row)), _secret(twin)


def _found_twin(twin: Twin, payload: Payload, content: str, context: Payload) -> Found:
    suffix = f"/{twin.perturbation}/{twin.cast}/{twin.number:04}"
    counts_as = vetting.counts_as(twin)
    candidate = _candidate(twin.transition, (twin.cast, counts_as), payload, content, suffix)
    known = [twin.field] if twin.field and counts_as != "none" else []
    target = targets(twin.transition.step, twin.outcome or {}, known) if known else []
    origin = {
        "transition_id": twin.transition_id,
        "twin_id": twin.pk,
        "truth": _planted(counts_as),
        "reference": find_reference(counts_as, None),
        "target": target,
    }
    return Found(candidate, payload, context, origin)


def _secret(twin: Twin) -> Secret:
    """What was said of the planted error, by rule or by the model that planted it."""
    return Secret("\n".join((twin.why, _told_apart(twin.outcome or {}))), twin.transition.step["outcome"])


def _told_apart(outcome: Mapping[str, object]) -> str:
    """What an error prompt makes a model say behind SECRET; ordinary reasoning may well share words with what is seen."""
    _, marker, secret = str(outcome.get("reasoning") or "").partition("SECRET")
    return secret if marker else ""


def _simulated_by_models() -> set[int]:
    """Runs in which a language model answered: whether its plain answer is plausible is what raters are asked."""
    runs = Run.objects.filter(setup__cast__transition_model__has_key="model")
    return set(runs.values_list("pk", flat=True))


def _planted(perturbation: str) -> bool | None:
    """A planted error is known to be wrong; of another model's plain answer nothing is known."""
    return None if perturbation == "none" else False


def _candidate(row: Transition, source: tuple[str, str], payload: Payload, content: str, suffix: str = "") -> Candidate:
    """Versions of one thing are all outcomes of the same action on the same materials, replicates included."""
    key = f"{_key(row.episode)}/{row.number:04}{suffix}"
    return Candidate(key, source, pair_digest(payload), content, row.episode.experiment.slug, row.action_name)


def _key(episode: Episode) -> str:
    """The same in every database that was filled the same way: the plan then is the same too."""
    return f"{episode.experiment.slug}/{episode.cast}/{episode.replicate:05}"


class _Earlier:
    """The steps before a step, blinded; each episode is read once. Nothing at all unless some arm shows them."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._of: tuple[int, list[Transition]] = (0, [])
        self._made: dict[int, Payload] = {}

    def context(self, row: Transition) -> Payload:
        if not self._wanted:
            return {}
        if row.pk not in self._made:
            before = [other.step for other in self._episode(row.episode_id) if other.number < row.number]
            self._made[row.pk] = blind_context(row.episode.experiment.goal, before)
        return self._made[row.pk]

    def _episode(self, episode: int) -> list[Transition]:
        if self._of[0] != episode:
            steps = Transition.objects.filter(episode=episode).exclude(action_name__in=_controls())
            self._of = episode, list(steps.order_by("number"))
        return self._of[1]


def _usable(protocol: StudyProtocol) -> QuerySet[Transition]:
    rows = Transition.objects.filter(accepted=True, episode__counts=True, episode__status__in=Episode.ENDED)
    if protocol.experiments:
        rows = rows.filter(episode__experiment__slug__in=protocol.experiments)
    if protocol.actions:
        rows = rows.filter(action_name__in=protocol.actions)
    order = ("episode__experiment__slug", "episode__cast", "episode__replicate", "number")
    return rows.exclude(action_name__in=_controls()).select_related("episode__experiment").order_by(*order)


def _controls() -> list[str]:
    """Actions that do nothing at the bench, such as submitting."""
    return list(CatalogueEntry.objects.filter(kind="control").values_list("name", flat=True))


def _twins(protocol: StudyProtocol) -> Iterator[Twin]:
    """Those that were accepted, under the error type that they count as."""
    wanted = {(source.cast, source.perturbation) for source in protocol.sources}
    rows = vetting.accepted(_finished(protocol), by_person=protocol.vetting == "person")
    order = ("transition__episode", "transition__number", "pk")
    for twin in rows.select_related("transition__episode__experiment").order_by(*order):
        if (twin.cast, vetting.counts_as(twin)) in wanted:
            yield twin


def _finished(protocol: StudyProtocol) -> QuerySet[Twin]:
    return Twin.objects.filter(status="done", transition__in=_usable(protocol).order_by())


def _unvetted(protocol: StudyProtocol) -> Counter[tuple[str, str]]:
    """How many twins of each source wait for a person."""
    if protocol.kind == EVIDENCE:
        return Counter()
    waiting = vetting.undecided(_finished(protocol), by_person=protocol.vetting == "person")
    return Counter(waiting.order_by().values_list("cast", "perturbation"))


def _casts(protocol: StudyProtocol, perturbation: str) -> Collection[str]:
    return [source.cast for source in protocol.sources if source.perturbation == perturbation]


def _evidence(protocol: StudyProtocol) -> Iterator[Told]:
    """Submitted episodes that a classifier has judged, of goals as they still stand. Two that read alike are one."""
    rows = Episode.objects.filter(status="submitted", counts=True, cast__in=_casts(protocol, "none"))
    rows = rows.filter(experiment_sha256=F("experiment__sha256"))
    if protocol.experiments:
        rows = rows.filter(experiment__slug__in=protocol.experiments)
    steps = Transition.objects.exclude(action_name__in=_controls()).order_by("number")
    reviews = EvidenceReview.objects.order_by("-primary", "classifier")
    both = Prefetch("transitions", steps), Prefetch("reviews", reviews)
    for episode in rows.filter(reviews__isnull=False).distinct().select_related("experiment").prefetch_related(*both):
        taken = [row.step for row in episode.transitions.all()]
        payload = blind_evidence(episode.experiment.goal, taken)
        digest, judged = payload_digest(payload), list(episode.reviews.all())
        candidate = Candidate(_key(episode), (episode.cast, "none"), digest, digest, episode.experiment.slug, "")
        verdicts = {review.classifier: review.sufficient for review in judged}
        origin = {"review_id": judged[0].pk, "truth": None, "target": [], "verdicts": verdicts}
        secret = "\n".join(_told_apart(step["outcome"]) for step in taken)
        yield Found(candidate, payload, {}, origin), Secret(secret)
