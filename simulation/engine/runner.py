"""Run one unit of an episode: at most one call of one model, then one committed step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils import timezone

from simulation import leases
from simulation.calls import Connector, connect
from simulation.calls.replay import CallReplayer
from simulation.casts import casting, prompt_store
from simulation.casts.casting import Cast, PromptTools
from simulation.casts.run_config import PERSON
from simulation.lab import action_format
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, step_from_json, step_to_json
from simulation.lab.deviations import find_deviation
from simulation.lab.differences import find_differences
from simulation.lab.errors import NoErrorFits
from simulation.lab.hidden_steps.masks import ProtocolMask
from simulation.lab.outcomes import Outcome, Perturbation, RejectedBy
from simulation.lab.roles import Perturber
from simulation.leases import Blocked, Lease
from simulation.llm.conversation import UnusableTwin
from simulation.llm.model_rater import LLMRater, RatingKind
from simulation.models import Episode, EvidenceReview, Job, MissingReview, Transition, Twin
from simulation.runs import benches, stored_configs, transition_checks

UNREADABLE_ACTION = "(unreadable)"


@dataclass(frozen=True)
class RoleSet:
    """The roles of one unit, and the notes that the agent may have changed in it."""

    cast: Cast
    by_person: bool
    memory: dict[str, Any]
    notes_before: str

    def changed_notes(self) -> dict[str, Any]:
        """Return the change to the episode's row that stores the agent's notes, or {} if the notes did not change."""
        return {"memory": self.memory} if repr(self.memory) != self.notes_before else {}


def build_episode_roles(lease: Lease[Episode], connector: Connector = connect) -> RoleSet:
    episode = lease.row
    setup, memory = stored_configs.get_run_config(episode.run, episode.cast), dict(episode.memory)
    # A verdict that is requested again must be a new call: under the same number, the model's earlier refusal would be
    # replayed from the call log.
    number = episode.next_number + (episode.verdict_requests if episode.phase == "verdict" else 0)
    prompter = _make_tools(CallReplayer(lease, setup, episode.phase, number, connector), memory)
    pending_action = Action.from_json(episode.pending) if episode.pending else None
    spec = benches.get_specification(episode.experiment, episode.truth_seed)
    mask = ProtocolMask.from_json(episode.mask)
    cast = casting.build_cast(setup, spec, episode.seed, prompter, pending_action, mask)
    return RoleSet(cast, setup.agent.plays == PERSON, memory, repr(memory))


def build_perturber(lease: Lease[Twin], connector: Connector = connect) -> Perturber:
    twin = lease.row
    setup = stored_configs.get_run_config(twin.run, twin.cast)
    prompter = _make_tools(CallReplayer(lease, setup, "twin", twin.tries, connector), {})
    episode = twin.transition.episode
    spec = benches.get_specification(episode.experiment, episode.truth_seed)
    return casting.build_perturber(setup, spec, Perturbation(twin.perturbation), twin.seed, twin.run.sizes, prompter)


def build_model_rater(
    lease: Lease[Job],
    kind: RatingKind,
    question: str,
    guide: str,
    number: int,
    job_ids: tuple[int, ...],
    connector: Connector = connect,
) -> LLMRater:
    """Return the model that rates item `number` of a study, for one unit of a job."""
    run = lease.row.run
    assert run is not None, "model raters have a run that pays for their calls"
    setup = stored_configs.get_run_config(run, run.cast)
    prompter = _make_tools(CallReplayer(lease, setup, "rating", number, connector, job_ids=job_ids), {})
    return casting.build_rater(setup, kind, question, guide, prompter)


def _make_tools(replayer: CallReplayer, memory: dict[str, Any]) -> PromptTools:
    prompt_sha256 = replayer.setup.prompt_sha256
    return PromptTools(replayer.create_speaker, lambda: prompt_store.load_texts(prompt_sha256), memory)


def run_episode_unit(lease: Lease[Episode], connector: Connector = connect) -> bool:
    """Run the next unit of the episode, as its phase requires. Return True if its result is committed."""
    episode = lease.row
    if episode.cancel_requested_at:
        if not episode.verdict_requests:
            return lease.finish_row("cancelled")
        # End it as it had ended before its missing verdicts were requested again. They stay missing.
        rows = MissingReview.objects.filter(episode=episode)
        return lease.finish_row("submitted", lambda: rows.update(requested_at=None), cancel_requested_at=None)
    return leases.run_unit(lease, lambda: _run_phase(lease, connector))


def _run_phase(lease: Lease[Episode], connector: Connector) -> bool:
    benches.check_unchanged(lease.row)
    # While the lease is kept, nobody else commits steps, so the bench of the last unit is current.
    bench = lease.bench = lease.bench or benches.build_bench(lease.row)
    units = {"agent": _choose_action, "transition": _predict_outcome, "verdict": _judge_evidence}
    return units[lease.row.phase](lease, bench, build_episode_roles(lease, connector))


def _choose_action(lease: Lease[Episode], bench: Bench, role_set: RoleSet) -> bool:
    try:
        chosen = role_set.cast.agent.choose_action(bench.get_situation())
    except action_format.ActionFormatError as error:
        rejected = Outcome.make_rejected(str(error), RejectedBy.PARSER)
        return _commit_step(lease, bench, role_set, Action(UNREADABLE_ACTION), rejected)
    # Actions that the catalogue rejects, submit and quit need no transition model: their outcome is known here.
    action, outcome = bench.resolve_action(chosen)
    if outcome is None:
        return lease.commit_changes(phase="transition", pending=action.to_json(), **role_set.changed_notes())
    return _commit_step(lease, bench, role_set, action, outcome)


def _predict_outcome(lease: Lease[Episode], bench: Bench, role_set: RoleSet) -> bool:
    pending = lease.row.pending
    assert pending is not None, "the constraint episode_pending_in_transition"
    action = Action.from_json(pending)
    outcome = role_set.cast.transition_model.predict_outcome(action, bench.get_situation())
    return _commit_step(lease, bench, role_set, action, outcome)


def _judge_evidence(lease: Lease[Episode], bench: Bench, role_set: RoleSet) -> bool:
    """Run the next classifier, one per unit. The panel's verdicts, all but the first, do not affect the ending."""
    episode, done = lease.row, set()
    # The only classifier of a cast cannot have judged before if this unit has not been tried before.
    if len(role_set.cast.judges) > 1 or not lease.is_first_unit or episode.verdict_requests:
        done = {*episode.reviews.values_list("classifier", flat=True)}
        done |= {*episode.missing_reviews.filter(requested_at=None).values_list("classifier", flat=True)}
    remaining = [judge for judge in role_set.cast.judges if judge.name not in done]
    if not remaining:
        return lease.finish_row("submitted")
    judge, primary = remaining[0], remaining[0].name == role_set.cast.judges[0].name
    review: EvidenceReview | None = None
    extra_write: Callable[[], object] | None = None
    try:
        verdict = judge.classifier.judge_evidence(episode.experiment.goal, bench.get_transcript())
        columns = {"summarised": verdict.summarised, "sufficient": verdict.sufficient, "verdict": verdict.to_json()}
        review = EvidenceReview(episode=episode, classifier=judge.name, primary=primary, **columns)
        if episode.verdict_requests:  # only then it may have been missing
            extra_write = MissingReview.objects.filter(episode=episode, classifier=judge.name).delete
    except (*leases.MODEL_FAULTS, Blocked) as fault:
        # An episode must end even if a panel member is permanently unavailable, for example because its model was
        # retired. For verdicts that were requested again, any fault ends the episode as it had ended before.
        requested_again = episode.verdict_requests > 0
        if primary or (isinstance(fault, Blocked) and fault.reason != "bad_request" and not requested_again):
            raise
        reason = fault.reason if isinstance(fault, Blocked) else leases.classify_fault(fault)
        gap = {"reason": reason, "error": str(fault)[:2000], "requested_at": None}
        names: dict[str, Any] = {"episode": episode, "classifier": judge.name}
        extra_write = partial(MissingReview.objects.update_or_create, **names, defaults=gap)
    commit = lease.commit_changes if len(remaining) > 1 else partial(lease.finish_row, "submitted")
    return commit(extra_write=extra_write, new_row=review)


def _commit_step(lease: Lease[Episode], bench: Bench, role_set: RoleSet, action: Action, outcome: Outcome) -> bool:
    """Store the step and advance the episode in one transaction. End the episode if the step ended it."""
    # Asked before the step is recorded, because the prefix then names the step after it.
    given = role_set.cast.is_given(bench.get_situation())
    step = bench.record_outcome(action, outcome)
    notes = role_set.changed_notes()
    if bench.ending is Ending.SUBMITTED:
        return lease.commit_changes(phase="verdict", pending=None, **notes)
    if bench.ending is Ending.QUIT:
        return lease.finish_row("quit", pending=None, **notes)
    row = Transition(
        episode=lease.row,
        number=step.number,
        # A model may invent a name of any length; the step itself has it in full.
        action_name=step.action.name[:80],
        accepted=step.outcome.success,
        given=given,
        rejected_by=str(step.outcome.rejected_by),
        step=step_to_json(step),
        content_sha256=benches.compute_content_digest(step),
        findings=transition_checks.compute_findings(step),
    )
    # The transition and the episode's position are one commit: after a crash, either the step is stored and the
    # position has advanced, or neither has happened.
    cursor: dict[str, Any] = {"phase": "agent", "pending": None, "next_number": step.number + 1, **notes}
    if bench.ending:
        cursor |= {"status": bench.ending.value, "ended_at": timezone.now()}
    else:
        cursor["awaits_person"] = role_set.by_person
    return lease.commit_changes(new_row=row, **cursor)


def run_twin_unit(lease: Lease[Twin]) -> bool:
    """Perturb the transition's outcome once. Return True if the result is committed."""
    return leases.run_unit(lease, lambda: _perturb_outcome(lease))


def _perturb_outcome(lease: Lease[Twin]) -> bool:
    twin = lease.row
    step = step_from_json(twin.transition.step)
    bench = benches.build_bench(twin.transition.episode, before=twin.transition.number)
    try:
        perturbed = build_perturber(lease).perturb_outcome(step.action, bench.get_situation(), step.outcome)
        bench.record_outcome(step.action, perturbed.outcome)  # raises LabError if no bench can be in that state
    except NoErrorFits as error:
        return lease.finish_row("unsuited", error=str(error))
    except UnusableTwin as error:
        return lease.finish_row("unusable", error=str(error))
    differences = find_differences(step.outcome, perturbed.outcome)
    return lease.finish_row(
        "done",
        outcome=perturbed.outcome.to_json(),
        kind=perturbed.kind,
        rule=perturbed.rule,
        field=perturbed.field[:200],
        explanation=perturbed.explanation,
        diff=[difference._asdict() for difference in differences],
        deviation=find_deviation(differences, perturbed.field) if twin.perturbation != Perturbation.NONE else None,
        findings=transition_checks.compute_findings(step, perturbed.outcome),
    )
