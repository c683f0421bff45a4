"""What a study can take its items from: rows of the simulation, blinded, each with where it came from."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from django.db.models import F, Prefetch, QuerySet

from ratings.blinding import Payload, blind_evidence, blind_transition, payload_digest
from ratings.models import EVIDENCE
from ratings.planning import Candidate, distinct
from ratings.protocols import SourceRequest, StudyProtocol
from simulation import casting, roster
from simulation.models import CatalogueEntry, Episode, EvidenceReview, Experiment, Run, Transition, Twin
from simulation.queueing import PERSON_CAST


class Found(NamedTuple):
    """A candidate with its payload; `origin` are the fields of its ItemSource that the candidate does not have."""

    candidate: Candidate
    payload: Payload
    origin: dict[str, Any]


class Stock(NamedTuple):
    """How many items a study wants of a source, and how many different ones there are."""

    source: SourceRequest
    have: int

    @property
    def enough(self) -> bool:
        return self.have >= self.source.count


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


def find(protocol: StudyProtocol) -> list[Found]:
    """Everything in the database that this study could use."""
    return list(_evidence(protocol) if protocol.kind == EVIDENCE else _transitions(protocol))


def stock(protocol: StudyProtocol) -> list[Stock]:
    """For each source of the study, how many items it wants and how many there are."""
    have = Counter(candidate.source for candidate in distinct(found.candidate for found in find(protocol)))
    return [Stock(source, have[source.cast, source.perturbation]) for source in protocol.sources]


def _transitions(protocol: StudyProtocol) -> Iterator[Found]:
    """Accepted steps and their finished twins. A twin that reads like its original shows no error: it is left out."""
    originals = _casts(protocol, "none")
    twins = _twins(protocol)
    plain: dict[str, str] = {}
    simulated_by_models = _simulated_by_models()
    for row in _usable(protocol).filter(episode__cast__in=originals):
        if row.content_sha256 not in plain:
            payload = blind_transition(row.step)
            plain[row.content_sha256] = digest = payload_digest(payload)
            candidate = _candidate(row, (row.episode.cast, "none"), payload, digest)
            truth = None if row.episode.run_id in simulated_by_models else True
            yield Found(candidate, payload, {"transition_id": row.pk, "truth": truth})
    for twin in twins:
        row = twin.transition
        if row.content_sha256 not in plain:
            plain[row.content_sha256] = payload_digest(blind_transition(row.step))
        payload = blind_transition(row.step, twin.outcome)
        content = payload_digest(payload)
        if content != plain[row.content_sha256]:
            suffix = f"/{twin.perturbation}/{twin.cast}/{twin.number:04}"
            candidate = _candidate(row, (twin.cast, twin.perturbation), payload, content, suffix)
            yield Found(candidate, payload, {"transition_id": row.pk, "twin_id": twin.pk, "truth": _planted(twin)})


def _simulated_by_models() -> set[int]:
    """Runs in which a language model answered: whether its plain answer is plausible is what raters are asked."""
    runs = Run.objects.filter(setup__cast__transition_model__has_key="model")
    return set(runs.values_list("pk", flat=True))


def _planted(twin: Twin) -> bool | None:
    """A planted error is known to be wrong; of another model's plain answer nothing is known."""
    return None if twin.perturbation == "none" else False


def _candidate(row: Transition, source: tuple[str, str], payload: Payload, content: str, suffix: str = "") -> Candidate:
    """Versions of one thing are all outcomes of the same action on the same materials, replicates included."""
    key = f"{_key(row.episode)}/{row.number:04}{suffix}"
    pair = payload_digest({"action": payload["action"], "before": payload["before"]})
    return Candidate(key, source, pair, content, row.episode.experiment.slug, row.action_name)


def _key(episode: Episode) -> str:
    """The same in every database that was filled the same way: the plan then is the same too."""
    return f"{episode.experiment.slug}/{episode.cast}/{episode.replicate:05}"


def _usable(protocol: StudyProtocol) -> QuerySet[Transition]:
    rows = Transition.objects.filter(accepted=True, episode__counts=True, episode__status__in=Episode.ENDED)
    if protocol.experiments:
        rows = rows.filter(episode__experiment__slug__in=protocol.experiments)
    order = ("episode__experiment__slug", "episode__cast", "episode__replicate", "number")
    return rows.exclude(action_name__in=_controls()).select_related("episode__experiment").order_by(*order)


def _controls() -> list[str]:
    """Actions that do nothing at the bench, such as submitting."""
    return list(CatalogueEntry.objects.filter(kind="control").values_list("name", flat=True))


def _twins(protocol: StudyProtocol) -> Iterator[Twin]:
    wanted = {(source.cast, source.perturbation) for source in protocol.sources}
    rows = Twin.objects.filter(status="done", transition__in=_usable(protocol).order_by())
    for twin in rows.select_related("transition__episode__experiment").order_by("pk"):
        if (twin.cast, twin.perturbation) in wanted:
            yield twin


def _casts(protocol: StudyProtocol, perturbation: str) -> Collection[str]:
    return [source.cast for source in protocol.sources if source.perturbation == perturbation]


def _evidence(protocol: StudyProtocol) -> Iterator[Found]:
    """Submitted episodes that a classifier has judged, of goals as they still stand. Two that read alike are one."""
    rows = Episode.objects.filter(status="submitted", counts=True, cast__in=_casts(protocol, "none"))
    rows = rows.filter(experiment_sha256=F("experiment__sha256"))
    if protocol.experiments:
        rows = rows.filter(experiment__slug__in=protocol.experiments)
    steps = Transition.objects.exclude(action_name__in=_controls()).order_by("number")
    reviews = EvidenceReview.objects.order_by("-primary", "classifier")
    both = Prefetch("transitions", steps), Prefetch("reviews", reviews)
    for episode in rows.filter(reviews__isnull=False).distinct().select_related("experiment").prefetch_related(*both):
        payload = blind_evidence(episode.experiment.goal, [row.step for row in episode.transitions.all()])
        digest, judged = payload_digest(payload), list(episode.reviews.all())
        candidate = Candidate(_key(episode), (episode.cast, "none"), digest, digest, episode.experiment.slug, "")
        verdicts = {review.classifier: review.sufficient for review in judged}
        yield Found(candidate, payload, {"review_id": judged[0].pk, "truth": None, "verdicts": verdicts})
