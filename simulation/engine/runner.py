"""Run one unit of an episode: at most one call of one model, then one committed step."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.utils import timezone

from simulation.calls import Connector, connect
from simulation.casts.casting import Judge
from simulation.engine import role_sets
from simulation.engine.role_sets import RoleSet
from simulation.lab import action_format
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, Step, step_to_json
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.leases import Blocked, Lease, unit_outcomes
from simulation.models import Episode, EvidenceReview, MissingReview, Transition
from simulation.runs import benches, transition_checks

log = logging.getLogger("wetbench.runner")
UNREADABLE_ACTION = "(unreadable)"
Unit = Callable[[Lease[Episode], Bench, RoleSet], bool]


def run_episode_unit(lease: Lease[Episode], connector: Connector = connect) -> bool:
    """Run the next unit of the episode, as its phase requires. Return True if its result is committed."""
    episode = lease.row
    if episode.cancel_requested_at:
        return _end_repeated_verdicts(lease) if episode.verdict_requests else lease.finish_row("cancelled")
    return unit_outcomes.run_unit(lease, lambda: _run_phase(lease, connector))


def _run_phase(lease: Lease[Episode], connector: Connector) -> bool:
    episode = lease.row
    benches.check_unchanged(episode)
    bench = benches.build_bench(episode)
    return _UNIT_OF_PHASE[episode.phase](lease, bench, role_sets.build_episode_roles(lease, connector))


def _choose_action(lease: Lease[Episode], bench: Bench, role_set: RoleSet) -> bool:
    """Run the agent's turn."""
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
    """Run the transition model's turn."""
    pending = lease.row.pending
    assert pending is not None, "the constraint episode_pending_in_transition"
    action = Action.from_json(pending)
    outcome = role_set.cast.transition_model.predict_outcome(action, bench.get_situation())
    return _commit_step(lease, bench, role_set, action, outcome)


def _judge_evidence(lease: Lease[Episode], bench: Bench, role_set: RoleSet) -> bool:
    """Run the next evidence classifier on a submitted episode, one per unit.

    Only the first classifier's verdict counts. The panel's verdicts do not affect how the episode ends.
    """
    episode = lease.row
    done = {*episode.reviews.values_list("classifier", flat=True)}
    done |= {*episode.missing_reviews.filter(requested_at=None).values_list("classifier", flat=True)}
    remaining = [judge for judge in role_set.cast.judges if judge.name not in done]
    if not remaining:
        return lease.finish_row("submitted")
    judge, primary = remaining[0], remaining[0].name == role_set.cast.judges[0].name
    try:
        review: Callable[[], None] = partial(_save_verdict, _build_review(episode, bench, judge, primary))
    except (*unit_outcomes.MODEL_FAULTS, Blocked) as fault:
        # An episode must end even if a panel member is permanently unavailable, for example because its model was
        # retired. For verdicts that were requested again, any fault ends the episode as it had ended before.
        requested_again = episode.verdict_requests > 0
        if primary or (isinstance(fault, Blocked) and fault.reason != "bad_request" and not requested_again):
            raise
        reason = fault.reason if isinstance(fault, Blocked) else unit_outcomes.classify_fault(fault)
        review = partial(_record_missing_verdict, episode, judge.name, reason, str(fault)[:2000])
    return lease.finish_row("submitted", extra_write=review) if len(remaining) == 1 else lease.commit_changes(review)


def _record_missing_verdict(episode: Episode, classifier: str, reason: str, error: str) -> None:
    values = {"reason": reason, "error": error, "requested_at": None}
    MissingReview.objects.update_or_create(episode=episode, classifier=classifier, defaults=values)


def _end_repeated_verdicts(lease: Lease[Episode]) -> bool:
    """End the episode as it had ended before its missing verdicts were requested again. The verdicts stay missing."""
    rows = MissingReview.objects.filter(episode=lease.row)
    return lease.finish_row("submitted", extra_write=lambda: rows.update(requested_at=None), cancel_requested_at=None)


def _save_verdict(review: EvidenceReview) -> None:
    """Store a verdict, and delete the record that it was missing."""
    review.save()
    MissingReview.objects.filter(episode=review.episode, classifier=review.classifier).delete()


def _build_review(episode: Episode, bench: Bench, judge: Judge, primary: bool) -> EvidenceReview:
    verdict = judge.classifier.judge_evidence(episode.experiment.goal, bench.get_transcript())
    return EvidenceReview(
        episode=episode,
        classifier=judge.name,
        primary=primary,
        summarised=verdict.summarised,
        sufficient=verdict.sufficient,
        verdict=verdict.to_json(),
    )


_UNIT_OF_PHASE: dict[str, Unit] = {"agent": _choose_action, "transition": _predict_outcome, "verdict": _judge_evidence}


def _commit_step(lease: Lease[Episode], bench: Bench, role_set: RoleSet, action: Action, outcome: Outcome) -> bool:
    """Store the step and advance the episode in one transaction. End the episode if the step ended it."""
    step = bench.record_outcome(action, outcome)
    notes = role_set.changed_notes()
    if bench.ending is Ending.SUBMITTED:
        return lease.commit_changes(phase="verdict", pending=None, **notes)
    if bench.ending is Ending.QUIT:
        return lease.finish_row("quit", pending=None, **notes)
    row = _build_transition(lease.row, step)
    # The transition and the episode's position are one commit: after a crash, either the step is stored and the
    # position has advanced, or neither has happened.
    cursor: dict[str, Any] = {"phase": "agent", "pending": None, "next_number": step.number + 1, **notes}
    if bench.ending:
        return lease.commit_changes(row.save, status=bench.ending.value, ended_at=timezone.now(), **cursor)
    return lease.commit_changes(row.save, awaits_person=role_set.by_person, **cursor)


def _build_transition(episode: Episode, step: Step) -> Transition:
    return Transition(
        episode=episode,
        number=step.number,
        # A model may invent a name of any length; the step itself has it in full.
        action_name=step.action.name[:80],
        accepted=step.outcome.success,
        rejected_by=str(step.outcome.rejected_by),
        step=step_to_json(step),
        content_sha256=benches.compute_content_digest(step),
        findings=transition_checks.compute_findings(step),
    )
