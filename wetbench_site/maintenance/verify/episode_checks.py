"""Rules that episodes, their steps and twins must meet in every database."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, Subquery

from simulation.lab.bench import Step, step_from_json
from simulation.lab.differences import find_differences
from simulation.lab.hidden_steps.masks import PREFIX, ProtocolMask
from simulation.lab.materials import Inventory, make_unused_barcode
from simulation.lab.outcomes import Outcome
from simulation.lab.truths import truth_seeds
from simulation.models import Episode, EvidenceReview, Transition, Twin, TwinDecision
from simulation.runs import benches
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows, report_rows

_EPISODES = Episode.objects.order_by("pk")


@build_check("numbers of steps", Episode)
def check_step_numbers() -> Iterator[Violation]:
    """The steps of an episode are numbered from 1 to its next number, without gaps."""
    first, last = Min("transitions__number"), Max("transitions__number")
    counted = _EPISODES.annotate(n=Count("transitions"), first=first, last=last, done=F("next_number") - 1)
    broken = counted.exclude(n=0, next_number=1).exclude(first=1, last=F("n"), done=F("n"))
    yield from report_rows(broken, "steps 1 to {done}", "{n} steps, {first} to {last}")


@build_check("pending actions", Episode)
def check_pending_actions() -> Iterator[Violation]:
    """An episode has a pending action in the transition phase, and only then."""
    transitions, others = _EPISODES.filter(phase="transition"), _EPISODES.exclude(phase="transition")
    lacking, needless = transitions.filter(pending__isnull=True), others.filter(pending__isnull=False)
    yield from report_rows(lacking, "in phase {phase}: a pending action", "the opposite")
    yield from report_rows(needless, "in phase {phase}: no pending action", "the opposite")


@build_check("ends of submitted and rejected episodes", Episode)
def check_episode_ends() -> Iterator[Violation]:
    """The end of an episode follows from its last steps, and a submitted one has one primary verdict."""
    verdicts = Count("reviews", filter=Q(reviews__primary=True))
    submitted = _EPISODES.filter(status="submitted").annotate(n=verdicts).exclude(n=1)
    yield from report_rows(submitted, "submitted, with one primary verdict", "{n} of them")
    last_rejected = Q(transitions__accepted=False, transitions__number__gte=F("next_number") - 3)
    rejected_out = _EPISODES.filter(status="rejected_out").annotate(n=Count("transitions", filter=last_rejected))
    yield from report_rows(rejected_out.exclude(n=3), "three rejections in a row", "{n} in its last three steps")
    # Only with the experiment's current data: a reloaded experiment can have another limit.
    truncated = _EPISODES.filter(status="truncated", experiment_sha256=F("experiment__sha256")).annotate(
        done=F("next_number") - 1, most=F("experiment__max_steps")
    )
    yield from report_rows(truncated.filter(done__lt=F("most")), "all {most} steps used", "{done} steps")


@build_check("retries of replicates", Episode)
def check_retries() -> Iterator[Violation]:
    """Only the last retry of a replicate counts."""
    retries = Episode.objects.filter(retry_of=OuterRef("pk"))
    superseded = _EPISODES.filter(Exists(retries), counts=True)
    yield from report_rows(superseded, "retried, so it does not count", "it counts")
    same = {f"retry_of__{name}": F(name) for name in ("experiment", "cast", "replicate", "mask_key")}
    different = _EPISODES.filter(retry_of__isnull=False).exclude(**same)
    expected = "the experiment, cast, hidden steps and replicate of the episode it retries"
    yield from report_rows(different, expected, "different ones")


@build_check("verdicts of reviews", EvidenceReview)
def check_review_verdicts() -> Iterator[Violation]:
    """The verdict of a review is that of its stored reply."""
    reviews = EvidenceReview.objects.order_by("pk").values_list("code", "sufficient", "verdict")
    for code, sufficient, verdict in iter_rows(reviews):
        if verdict.get("sufficient") is not sufficient:
            yield build_violation(EvidenceReview, code, f"sufficient: {verdict.get('sufficient')}", sufficient)


@build_check("hidden truths", Episode)
def check_truths() -> Iterator[Violation]:
    """The stored truth of an episode is the one that its seed draws from its experiment, and the seed is of the run's split."""
    # Only with the experiment's current data: a reloaded experiment can have other ranges.
    drawn = _EPISODES.exclude(truth_seed__isnull=True, run__truths=truth_seeds.REFERENCE)
    drawn = drawn.filter(experiment_sha256=F("experiment__sha256"))
    for episode in drawn.select_related("experiment", "run").defer("initial", "memory", "run__setup").iterator():
        expected = dict(benches.get_specification(episode.experiment, episode.truth_seed).drawn)
        if episode.truth_seed is not None and episode.truth != expected:
            yield build_violation(Episode, episode.code, f"the truth of seed {episode.truth_seed}", "another one")
        if (split := truth_seeds.find_split(episode.truth_seed)) != episode.run.truths:
            yield build_violation(
                Episode, episode.code, f"a truth seed of {episode.run.truths}", f"one of {split or 'no split'}"
            )


@build_check("hidden steps", Episode)
def check_masks() -> Iterator[Violation]:
    """The key of an episode is that of its mask, which hides steps of the protocol, and only steps before the first one are given."""
    masked = _EPISODES.exclude(mask={}, mask_key="").annotate(
        last_given=Max("transitions__number", filter=Q(transitions__given=True))
    )
    for episode in masked.select_related("experiment").defer("initial", "memory").iterator():
        mask = ProtocolMask.from_json(episode.mask)
        if (key := mask.key if mask else "") != episode.mask_key:
            yield build_violation(Episode, episode.code, f"the key {key!r}", repr(episode.mask_key))
        if mask is None or episode.experiment_sha256 != episode.experiment.sha256:
            continue
        protocol = benches.get_specification(episode.experiment).protocol
        if mask.hidden and not 1 <= mask.hidden[0] <= mask.hidden[-1] <= len(protocol):
            yield build_violation(Episode, episode.code, f"steps from 1 to {len(protocol)}", mask.key)
        most = (len(protocol) if mask.steps_before is None else mask.steps_before) if mask.help == PREFIX else 0
        if (episode.last_given or 0) > most:
            yield build_violation(Episode, episode.code, f"at most {most} given steps", f"step {episode.last_given}")
    given = _EPISODES.filter(mask_key="", transitions__given=True).distinct()
    yield from report_rows(given, "no mask, so no given steps", "given steps")


EPISODE_CHECKS = (
    check_masks,
    check_step_numbers,
    check_pending_actions,
    check_episode_ends,
    check_retries,
    check_review_verdicts,
    check_truths,
)


_COLUMNS = (
    "episode_id", "code", "number", "action_name", "accepted", "rejected_by", "content_sha256", "step",
    "episode__seed", "episode__initial",
)  # fmt: skip
StepRow = dict[str, Any]


@build_check("texts of steps", Transition)
def check_step_columns() -> Iterator[Violation]:
    """The columns of a step equal its stored text, and its digest matches."""
    for row in iter_rows(Transition.objects.order_by("pk").values(*_COLUMNS[1:8])):
        step = step_from_json(row["step"])
        expected = {
            "number": step.number,
            "action_name": step.action.name[:80],
            "accepted": step.outcome.success,
            "rejected_by": str(step.outcome.rejected_by),
            "content_sha256": benches.compute_content_digest(step),
        }
        for name, value in expected.items():
            if row[name] != value:
                yield build_violation(Transition, row["code"], f"{name} {value}", row[name])


@build_check("benches of steps", Transition)
def check_step_benches() -> Iterator[Violation]:
    """A step starts with the materials and the time that earlier steps left."""
    in_order = Transition.objects.order_by("episode_id", "number").values(*_COLUMNS)
    for _, steps in groupby(iter_rows(in_order), lambda row: row["episode_id"]):
        yield from _replay_episode(steps)


def _replay_episode(steps: Iterator[StepRow]) -> Iterator[Violation]:
    """Yield the first step that does not fit the steps before it."""
    bench, clock = None, 0
    for row in steps:
        bench = bench or Inventory.from_json(row["episode__initial"])
        step = step_from_json(row["step"])
        if problem := _find_step_problem(step, bench, clock, row["episode__seed"]):
            yield build_violation(Transition, row["code"], *problem)
            break  # later steps cannot be checked without its materials
        clock = step.ended_at
        if step.outcome.success:
            touched = [material.barcode for material in step.inputs]
            bench = bench.after_step(step.outcome.new_materials, step.barcodes, touched, clock)


def _find_step_problem(step: Step, bench: Inventory, clock: int, seed: int) -> tuple[object, object] | None:
    """Return the expected and the stored state of the step if they differ, else None."""
    if step.started_at != clock or step.ended_at < clock:
        return f"started at {clock} s", f"from {step.started_at} to {step.ended_at} s"
    materials = tuple(material for code in step.action.materials if (material := bench.get(code)))
    if materials != step.inputs:
        changed = [material.barcode for material in step.inputs if bench.get(material.barcode) != material]
        found = f"different ones under {', '.join(changed)}" if changed else "other materials than its action names"
        return "the materials as the steps before left them", found
    if (codes := _compute_barcodes(step, bench, seed)) != step.barcodes:
        return f"barcodes {', '.join(codes)}", ", ".join(step.barcodes)
    return None


def _compute_barcodes(step: Step, bench: Inventory, seed: int) -> tuple[str, ...]:
    used_codes, codes = {material.barcode for material in bench}, []
    for index, new_material in enumerate(step.outcome.new_materials):
        codes.append(new_material.replaces or make_unused_barcode(seed, step.number, index, used_codes))
        used_codes.add(codes[-1])
    return tuple(codes)


STEP_CHECKS = (check_step_columns, check_step_benches)


_VETTING_AFTER = {
    "accepted": "accepted", "relabelled": "accepted", "rejected": "rejected", "unread": "accepted", "reopened": "",
    None: "",
}  # fmt: skip


@build_check("differences of twins", Twin)
def check_twin_differences() -> Iterator[Violation]:
    """A twin differs from its transition in exactly the stored properties."""
    finished = Twin.objects.order_by("pk").filter(status="done").exclude(diff=[])
    for pk, outcome, diff, step in iter_rows(finished.values_list("pk", "outcome", "diff", "transition__step")):
        original = step_from_json(step).outcome
        computed = [difference._asdict() for difference in find_differences(original, Outcome.from_json(outcome))]
        if [entry["path"] for entry in computed] != [entry.get("path") for entry in diff]:
            expected = ", ".join(str(entry["path"]) for entry in computed)
            yield build_violation(Twin, pk, expected, ", ".join(str(entry.get("path")) for entry in diff))


@build_check("decisions on twins", Twin)
def check_twin_decisions() -> Iterator[Violation]:
    """The vetting state of a twin is that of the last decision about it."""
    last = TwinDecision.objects.filter(twin=OuterRef("pk")).order_by("-pk").values("decision")[:1]
    twins = Twin.objects.order_by("pk").annotate(last=Subquery(last)).exclude(vetting="", last__isnull=True)
    for code, vetting, decision in iter_rows(twins.values_list("code", "vetting", "last")):
        if vetting != (expected := _VETTING_AFTER[decision]):
            yield build_violation(Twin, code, f"{expected or 'not vetted'}, the last decision", vetting or "not vetted")


@build_check("dates of decisions", Twin)
def check_decision_times() -> Iterator[Violation]:
    """A vetted twin has the time of the decision, and only such a twin has another error type."""
    inconsistent = Q(vetted_at__isnull=False, vetting="") | Q(vetted_at__isnull=True) & ~Q(vetted_as="")
    twins = Twin.objects.order_by("pk").filter(inconsistent)
    for code, decided_at, label in iter_rows(twins.values_list("code", "vetted_at", "vetted_as")):
        found = f"at {decided_at}, counted as {label or 'planted'}"
        yield build_violation(Twin, code, "a decision with its time", found)


TWIN_CHECKS = (check_twin_differences, check_twin_decisions, check_decision_times)
