"""The candidates of a study: rows of the simulation and imported items, blinded, each with its source."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from django.db.models import F, Model, Prefetch, QuerySet

from ratings.blinding import Payload, blind_context, blind_evidence, blind_transition, pair_digest, payload_digest
from ratings.blinding.allow_list import find_error_keys
from ratings.models import EVIDENCE, TRANSITION, ImportedItem, Study
from ratings.protocol import CandidateItem, StudyProtocol
from ratings.protocol.draw_items import drop_duplicates
from ratings.protocol.plan_types import Candidate, IdenticalCases
from ratings.protocol.reference import UNPERTURBED, find_reference
from ratings.protocol.study_protocol import SourceRequest
from ratings.studies import designs, quarantine, readable_elsewhere
from ratings.studies.quarantine import NO_SECRET, HeldItem, Secret
from simulation.casts import cast_availability
from simulation.casts.run_config import RULE_BASED_CASTS
from simulation.models import CatalogueEntry, Episode, EvidenceReview, Experiment, Run, Transition, Twin
from simulation.runs import vetting
from simulation.runs.people import HUMAN_CAST, build_cast_filter, get_source_name

M = TypeVar("M", bound=Model)


def list_imported_candidates(study: Study) -> list[CandidateItem]:
    """Return every item that was imported into the study, in the order of the file. All of them are requested."""
    # The record is the full line of the file, which nothing here reads.
    return build_candidates(study.imported_items.defer("record"))


def build_candidates(rows: Iterable[ImportedItem]) -> list[CandidateItem]:
    candidates = []
    for row in rows:
        # Without a pair in the file it is the pool's: outcomes of one action on the same materials are one pair.
        pair = payload_digest({"imported pair": row.pair}) if row.pair else pair_digest(row.payload)
        source, key = (row.label, row.perturbation), f"imported/{row.key}"
        candidate = Candidate(key, source, pair, row.payload_sha256, row.experiment, row.action)
        origin = {name: getattr(row, name) for name in ("truth", "reference", "target", "verdicts")}
        candidates.append(CandidateItem(candidate, row.payload, row.context, {"imported_id": row.pk, **origin}))
    return candidates


class SourceStock(NamedTuple):
    """How many items a study requests of a source, and how many different ones there are.

    `unvetted` twins wait for a person, `held` items for a decision in quarantine, and `left_out` ones are in an
    unblinded study: none of these is in `have`. `shown` ones are in it: an unblinded study of the other kind shows
    their episode, so raters who can read that study are not assigned them.
    """

    source: SourceRequest
    have: int
    unvetted: int
    held: int
    left_out: int
    shown: int

    @property
    def is_enough(self) -> bool:
        return self.have >= self.source.count


class PoolInventory(NamedTuple):
    """What the pool has for a study: what it may use, what is held, and twins that nobody has vetted.

    `left_out` could be used if no versions of them were in an unblinded study.
    """

    usable: list[CandidateItem]
    held: list[HeldItem]
    unvetted: Counter[tuple[str, str]]
    left_out: list[CandidateItem]


class PoolStock(NamedTuple):
    """What the pool has for each source of a study.

    `left_out`: how many different items are left out, imported ones included, because they are in an unblinded study.
    `shown`: how many come from an episode that an unblinded study of the other kind shows. `alike`: cases of a
    crossover that are left out because both sources gave the identical outcome.
    """

    lines: list[SourceStock]
    left_out: int
    shown: int
    alike: IdenticalCases


def list_casts() -> list[str]:
    """Return every cast that an item may come from, including the cast of people at the bench."""
    return [*cast_availability.list_names(), HUMAN_CAST]


def list_stocked_casts() -> list[str]:
    """Return the casts a study is likely to request: the offline ones, and those that have played or made twins here."""
    played = Episode.objects.order_by("cast").values_list("cast", flat=True).distinct()
    with_twins = Twin.objects.order_by("cast").values_list("cast", flat=True).distinct()
    all_casts = set(list_casts())
    return [
        *RULE_BASED_CASTS,
        *sorted(({*map(get_source_name, played), *with_twins} & all_casts) - set(RULE_BASED_CASTS)),
    ]


def list_experiments() -> list[str]:
    return list(Experiment.objects.order_by("slug").values_list("slug", flat=True))


def list_usable_candidates(protocol: StudyProtocol, study: Study | None = None) -> list[CandidateItem]:
    """Return every candidate that this study could use: vetted, and not held because of its text."""
    return take_inventory(protocol, study).usable


def take_inventory(protocol: StudyProtocol, study: Study | None = None) -> PoolInventory:
    """Return what the study could use now, and after a person's decision; without `study` no imported items."""
    iter_candidates = _iter_evidence_candidates if protocol.kind == EVIDENCE else _iter_transition_candidates
    pool_candidates = list(iter_candidates(protocol))
    pool_candidates += [(found, NO_SECRET) for found in (list_imported_candidates(study) if study else ())]
    usable, held = quarantine.separate_held(pool_candidates, study)
    usable, left_out = (usable, []) if protocol.allow_unblinded else separate_unblinded(usable)
    unvetted: Counter[tuple[str, str]] = Counter()
    if protocol.kind == TRANSITION:
        undecided = vetting.filter_undecided(_filter_finished_twins(protocol), by_person=protocol.vetting == "person")
        unvetted.update(undecided.order_by().values_list("cast", "perturbation"))
    return PoolInventory(usable, held, unvetted, left_out)


class Premises(NamedTuple):
    """What the choice of a study's items depends on, apart from rows of the laboratory. Quick to read and to compare."""

    imported: tuple[int, ...]  # items imported into the study
    decisions: frozenset[tuple[str, str]]  # of people, on items in quarantine
    unblinded: frozenset[int]  # studies
    names: tuple[frozenset[str], ...]  # that items may not contain


def read_premises(study: Study) -> Premises:
    return Premises(
        tuple(study.imported_items.order_by("pk").values_list("pk", flat=True)),
        frozenset(study.quarantine.values_list("payload_sha256", "decision")),
        frozenset(Study.objects.filter(status="unblinded").values_list("pk", flat=True)),
        quarantine.list_source_names(study),
    )


def are_usable(chosen: Sequence[CandidateItem], protocol: StudyProtocol) -> bool:
    """Return whether the items that come from the laboratory could still be chosen, with the same sources."""
    steps = {one.origin["transition_id"] for one in chosen if "transition_id" in one.origin}
    twins = {one.origin["twin_id"]: one.candidate.source for one in chosen if "twin_id" in one.origin}
    verdicts = {one.origin["review_id"]: one.origin["verdicts"] for one in chosen if "review_id" in one.origin}
    if len(_in_pieces(_filter_usable_steps(protocol).order_by(), steps)) < len(steps):
        return False
    usable_twins = vetting.filter_accepted(_filter_finished_twins(protocol), by_person=protocol.vetting == "person")
    sources = {twin.pk: (twin.cast, vetting.get_error_type(twin)) for twin in _in_pieces(usable_twins, twins)}
    reviews = EvidenceReview.objects.filter(episode__in=_filter_judged_episodes(protocol).order_by())
    episodes = {review.episode_id: review.pk for review in _in_pieces(reviews, verdicts)}
    current_verdicts: dict[int, dict[str, bool]] = {pk: {} for pk in episodes.values()}
    for review in _in_pieces(EvidenceReview.objects.all(), episodes, "episode"):
        current_verdicts[episodes[review.episode_id]][review.classifier] = review.sufficient
    return sources == twins and current_verdicts == verdicts


def _in_pieces(rows: QuerySet[M], keys: Collection[int], column: str = "pk") -> list[M]:
    """Return the rows with these keys; SQLite accepts some 30,000 values in a query."""
    ordered = sorted(keys)
    pieces = (ordered[start : start + 10_000] for start in range(0, len(ordered), 10_000))
    return [row for piece in pieces for row in rows.filter(**{f"{column}__in": piece})]


def separate_unblinded(candidates: Sequence[CandidateItem]) -> tuple[list[CandidateItem], list[CandidateItem]]:
    """Return two lists: the candidates that are in no unblinded study in any version, and the others."""
    unblinded_pairs = readable_elsewhere.find_unblinded_pairs() if candidates else set()
    # Digests are computed only if there is anything to compare them with.
    pairs = [pair_digest(found.payload) if unblinded_pairs else "" for found in candidates]
    sealed = [found for found, pair in zip(candidates, pairs, strict=True) if pair not in unblinded_pairs]
    return sealed, [found for found, pair in zip(candidates, pairs, strict=True) if pair in unblinded_pairs]


def take_stock(protocol: StudyProtocol, study: Study | None = None) -> PoolStock:
    """Return the stock of each source, and the number of items that are left out."""
    inventory = take_inventory(protocol, study)
    have = _count_by_source(inventory.usable)
    held = Counter(item.found.candidate.source for item in inventory.held if item.decision == "")
    left_out = _count_by_source(inventory.left_out)
    shown = _count_by_source(select_shown_elsewhere(inventory.usable, protocol.kind))
    lines = []
    for source in protocol.sources:
        key = source.cast, source.perturbation
        lines.append(
            SourceStock(source, *(counts[key] for counts in (have, inventory.unvetted, held, left_out, shown)))
        )
    total, identical = sum(line.shown for line in lines), designs.count_identical_cases(inventory.usable, protocol)
    return PoolStock(lines, count_left_out(inventory.left_out, protocol), total, identical)


def select_shown_elsewhere(candidates: Sequence[CandidateItem], kind: str) -> list[CandidateItem]:
    """Return those candidates of a study of this kind whose episode is in an unblinded study of the other kind."""
    shown_origins = readable_elsewhere.find_origins_shown(kind) if candidates else set()
    origin = "transition_id" if kind == TRANSITION else "review_id"
    return [found for found in candidates if found.origin.get(origin) in shown_origins]


def count_left_out(left_out: Sequence[CandidateItem], protocol: StudyProtocol) -> int:
    """Return how many different items are left out, among those of the study's sources and those imported into it."""
    sources = {(source.cast, source.perturbation) for source in protocol.sources}
    requested = [one for one in left_out if one.origin.get("imported_id") or one.candidate.source in sources]
    return len({found.candidate.content for found in requested})


def _count_by_source(candidates: Sequence[CandidateItem]) -> Counter[tuple[str, str]]:
    """Return the number of different items of each source."""
    return Counter(candidate.source for candidate in drop_duplicates(found.candidate for found in candidates))


def record_pool_decisions(study: Study, chosen: Sequence[CandidateItem], held: Sequence[HeldItem] = ()) -> None:
    """Record twins accepted by rule and held items left undecided, in the transaction that takes these items."""
    twins = [found.origin["twin_id"] for found in chosen if found.origin.get("twin_id")]
    vetting.accept_by_rule(Twin.objects.filter(pk__in=twins))
    quarantine.store_undecided(study, held)


CandidateWithSecret = tuple[CandidateItem, Secret]  # with what only the simulator may know about it


def _iter_transition_candidates(protocol: StudyProtocol) -> Iterator[CandidateWithSecret]:
    """Yield accepted steps and their vetted twins as candidates, each with its secret."""
    originals = _list_casts_of_kind(protocol, "none")
    earlier_steps = EarlierSteps(wanted=True in protocol.display.context)
    originals_by_content: dict[str, str] = {}
    runs_with_model = Run.objects.filter(setup__cast__transition_model__has_key="model")
    simulated_by_models = set(runs_with_model.values_list("pk", flat=True))
    for row in _filter_usable_steps(protocol).filter(build_cast_filter(originals, "episode__cast")):
        if row.content_sha256 not in originals_by_content:
            payload = blind_transition(row.step)
            originals_by_content[row.content_sha256] = digest = payload_digest(payload)
            candidate = _build_candidate(row, (get_source_name(row.episode.cast), "none"), payload, digest)
            # Whether a language model's plain answer is plausible is what raters are asked: only rules are right.
            truth = None if row.episode.run_id in simulated_by_models else True
            origin: dict[str, Any] = {"transition_id": row.pk, "truth": truth, "reference": UNPERTURBED, "target": []}
            secret = Secret(extract_reasoning_secret(row.step["outcome"]))
            yield CandidateItem(candidate, payload, earlier_steps.build_context(row), origin), secret
    requested = {(source.cast, source.perturbation) for source in protocol.sources}
    twins = vetting.filter_accepted(_filter_finished_twins(protocol), by_person=protocol.vetting == "person")
    order = ("transition__episode", "transition__number", "pk")
    for twin in twins.select_related("transition__episode__experiment").order_by(*order):
        # Not in SQL: a person may have vetted a twin as another error type than its generator meant.
        if (twin.cast, vetting.get_error_type(twin)) not in requested:
            continue
        row = twin.transition
        if row.content_sha256 not in originals_by_content:
            originals_by_content[row.content_sha256] = payload_digest(blind_transition(row.step))
        payload = blind_transition(row.step, twin.outcome)
        # A twin that is identical to its original in what raters see shows no error: it is left out.
        if (content := payload_digest(payload)) != originals_by_content[row.content_sha256]:
            secret_text = "\n".join((twin.explanation, extract_reasoning_secret(twin.outcome or {})))
            candidate_item = _build_twin_candidate(twin, payload, content, earlier_steps.build_context(row))
            yield candidate_item, Secret(secret_text, row.step["outcome"])


def _build_twin_candidate(twin: Twin, payload: Payload, content: str, context: Payload) -> CandidateItem:
    suffix = f"/{twin.perturbation}/{twin.cast}/{twin.number:04}"
    counts_as = vetting.get_error_type(twin)
    candidate = _build_candidate(twin.transition, (twin.cast, counts_as), payload, content, suffix)
    location = [twin.field] if twin.field and counts_as != "none" else []
    target = find_error_keys(twin.transition.step, twin.outcome or {}, location) if location else []
    truth = None if counts_as == "none" else False  # the plausibility of another model's plain answer is unknown
    origin = {"transition_id": twin.transition_id, "twin_id": twin.pk, "truth": truth, "target": target}
    return CandidateItem(candidate, payload, context, origin | {"reference": find_reference(counts_as, None)})


def extract_reasoning_secret(outcome: Mapping[str, object]) -> str:
    """Return the part of the reasoning after "SECRET", a word that the prompts for planted errors make a model write."""
    # Ordinary reasoning may well share words with what raters see, so it is not compared.
    return str(outcome.get("reasoning") or "").partition("SECRET")[2]


def _build_candidate(
    row: Transition, source: tuple[str, str], payload: Payload, content: str, suffix: str = ""
) -> Candidate:
    """Return the candidate of this step. Outcomes of one action on the same materials are one pair."""
    key = f"{_candidate_key(row.episode)}/{row.number:04}{suffix}"
    return Candidate(key, source, pair_digest(payload), content, row.episode.experiment.slug, row.action_name)


def _candidate_key(episode: Episode) -> str:
    # Built from names and not from primary keys: databases that were filled the same way then give the same plan.
    return f"{episode.experiment.slug}/{episode.cast}/{episode.replicate:05}"


class EarlierSteps:
    """Builds the context of each step. Each episode is read once, and none is read if no arm shows a context."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._of: tuple[int, list[Transition]] = (0, [])
        self._made: dict[int, Payload] = {}

    def build_context(self, row: Transition) -> Payload:
        if not self._wanted:
            return {}
        if row.pk not in self._made:
            # One episode is enough: steps come sorted by episode.
            if self._of[0] != row.episode_id:
                steps = Transition.objects.filter(episode=row.episode_id)
                steps = steps.exclude(action_name__in=_list_control_actions()).order_by("number")
                self._of = row.episode_id, list(steps)
            earlier = [other.step for other in self._of[1] if other.number < row.number]
            self._made[row.pk] = blind_context(row.episode.experiment.goal, earlier)
        return self._made[row.pk]


def _filter_usable_steps(protocol: StudyProtocol) -> QuerySet[Transition]:
    # Episodes whose agents were given a protocol are attempts at another task.
    rows = Transition.objects.filter(
        accepted=True, episode__counts=True, episode__mask_key="", episode__status__in=Episode.ENDED
    )
    if protocol.experiments:
        rows = rows.filter(episode__experiment__slug__in=protocol.experiments)
    if protocol.actions:
        rows = rows.filter(action_name__in=protocol.actions)
    order = ("episode__experiment__slug", "episode__cast", "episode__replicate", "number")
    return rows.exclude(action_name__in=_list_control_actions()).select_related("episode__experiment").order_by(*order)


def _list_control_actions() -> list[str]:
    """Return the actions that do nothing at the bench, such as submitting."""
    return list(CatalogueEntry.objects.filter(kind="control").values_list("name", flat=True))


def _filter_finished_twins(protocol: StudyProtocol) -> QuerySet[Twin]:
    return Twin.objects.filter(status="done", transition__in=_filter_usable_steps(protocol).order_by())


def _list_casts_of_kind(protocol: StudyProtocol, perturbation: str) -> Collection[str]:
    return [source.cast for source in protocol.sources if source.perturbation == perturbation]


def _iter_evidence_candidates(protocol: StudyProtocol) -> Iterator[CandidateWithSecret]:
    """Yield submitted episodes that a classifier has judged as candidates, each with its secret."""
    steps = Transition.objects.exclude(action_name__in=_list_control_actions()).order_by("number")
    reviews = EvidenceReview.objects.order_by("-primary", "classifier")
    related = Prefetch("transitions", steps), Prefetch("reviews", reviews)
    for episode in _filter_judged_episodes(protocol).select_related("experiment").prefetch_related(*related):
        steps_taken = [row.step for row in episode.transitions.all()]
        payload = blind_evidence(episode.experiment.goal, steps_taken)
        # The digest is also the content: two episodes that read alike are one item.
        digest, reviews_of_episode = payload_digest(payload), list(episode.reviews.all())
        key, source = _candidate_key(episode), (get_source_name(episode.cast), "none")
        candidate = Candidate(key, source, digest, digest, episode.experiment.slug, "")
        verdicts = {review.classifier: review.sufficient for review in reviews_of_episode}
        origin: dict[str, Any] = {"review_id": reviews_of_episode[0].pk, "truth": None, "target": []}
        secret = "\n".join(extract_reasoning_secret(step["outcome"]) for step in steps_taken)
        yield CandidateItem(candidate, payload, {}, origin | {"verdicts": verdicts}), Secret(secret)


def _filter_judged_episodes(protocol: StudyProtocol) -> QuerySet[Episode]:
    casts = build_cast_filter(_list_casts_of_kind(protocol, "none"))
    rows = Episode.objects.filter(casts, status="submitted", counts=True, mask_key="")
    # Only goals that are unchanged since: a verdict on an earlier version of a goal does not apply.
    rows = rows.filter(experiment_sha256=F("experiment__sha256"))
    if protocol.experiments:
        rows = rows.filter(experiment__slug__in=protocol.experiments)
    return rows.filter(reviews__isnull=False).distinct()
