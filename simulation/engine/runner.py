"""Run one unit of an episode: at most one call of one model, then one committed step."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from django.utils import timezone

from simulation.calls import Dial, dial
from simulation.casts.casting import Judge
from simulation.engine import players
from simulation.engine.players import Play
from simulation.lab import wire
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, Step, step_to_json
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.leases import Held, Lease, units
from simulation.models import Episode, EvidenceReview, MissingReview, Transition
from simulation.runs import checking, laboratory

log = logging.getLogger("wetbench.runner")
UNREADABLE = "(unreadable)"
Unit = Callable[[Lease[Episode], Bench, Play], bool]


def advance(lease: Lease[Episode], dial: Dial = dial) -> bool:
    """Run the unit that the episode's phase names. Return True if its result is committed."""
    episode = lease.row
    if episode.cancel_requested_at:
        return _give_up_requests(lease) if episode.verdict_requests else lease.finish("cancelled")
    return units.played(lease, lambda: _play(lease, dial))


def _play(lease: Lease[Episode], dial: Dial) -> bool:
    episode = lease.row
    laboratory.refuse_changed(episode)
    bench = laboratory.bench(episode)
    return _UNITS[episode.phase](lease, bench, players.of_episode(lease, dial))


def _choose(lease: Lease[Episode], bench: Bench, play: Play) -> bool:
    """Run the agent's turn."""
    try:
        chosen = play.cast.agent.choose(bench.situation())
    except wire.WireError as error:
        rejected = Outcome.rejected(str(error), RejectedBy.PARSER)
        return _commit_step(lease, bench, play, Action(UNREADABLE), rejected)
    # Actions that the catalogue rejects, submit and quit need no transition model: their outcome is known here.
    action, outcome = bench.attempt(chosen)
    if outcome is None:
        return lease.commit(phase="transition", pending=action.to_json(), **play.notes())
    return _commit_step(lease, bench, play, action, outcome)


def _answer(lease: Lease[Episode], bench: Bench, play: Play) -> bool:
    """Run the transition model's turn."""
    pending = lease.row.pending
    assert pending is not None, "the constraint episode_pending_in_transition"
    action = Action.from_json(pending)
    outcome = play.cast.transition_model.predict(action, bench.situation())
    return _commit_step(lease, bench, play, action, outcome)


def _judge(lease: Lease[Episode], bench: Bench, play: Play) -> bool:
    """Run the next evidence classifier after a submission, one per unit. Only the first one decides; the panel has no effect on the ending."""
    episode = lease.row
    done = {*episode.reviews.values_list("classifier", flat=True)}
    done |= {*episode.missing_reviews.filter(requested_at=None).values_list("classifier", flat=True)}
    remaining = [judge for judge in play.cast.judges if judge.name not in done]
    if not remaining:
        return lease.finish("submitted")
    judge, primary = remaining[0], remaining[0].name == play.cast.judges[0].name
    try:
        review: Callable[[], None] = partial(_keep_verdict, _review(episode, bench, judge, primary))
    except (*units.FAULTS, Held) as fault:
        # An episode must end even if a panel member is permanently unavailable, for example because its model was
        # retired. For verdicts that were requested again, any fault ends the episode as it had ended before.
        requested_again = episode.verdict_requests > 0
        if primary or (isinstance(fault, Held) and fault.reason != "bad_request" and not requested_again):
            raise
        reason = fault.reason if isinstance(fault, Held) else units.reason(fault)
        review = partial(_note_missing, episode, judge.name, reason, str(fault)[:2000])
    return lease.finish("submitted", also=review) if len(remaining) == 1 else lease.commit(review)


def _note_missing(episode: Episode, classifier: str, reason: str, error: str) -> None:
    values = {"reason": reason, "error": error, "requested_at": None}
    MissingReview.objects.update_or_create(episode=episode, classifier=classifier, defaults=values)


def _give_up_requests(lease: Lease[Episode]) -> bool:
    """End the episode as it had ended before missing verdicts were requested again. They stay missing."""
    rows = MissingReview.objects.filter(episode=lease.row)
    return lease.finish("submitted", also=lambda: rows.update(requested_at=None), cancel_requested_at=None)


def _keep_verdict(review: EvidenceReview) -> None:
    """Store a verdict, and remove it from the missing ones."""
    review.save()
    MissingReview.objects.filter(episode=review.episode, classifier=review.classifier).delete()


def _review(episode: Episode, bench: Bench, judge: Judge, primary: bool) -> EvidenceReview:
    verdict = judge.classifier.judge(episode.experiment.goal, bench.transcript())
    return EvidenceReview(
        episode=episode,
        classifier=judge.name,
        primary=primary,
        summarised=verdict.summarised,
        sufficient=verdict.sufficient,
        verdict=verdict.to_json(),
    )


_UNITS: dict[str, Unit] = {"agent": _choose, "transition": _answer, "verdict": _judge}


def _commit_step(lease: Lease[Episode], bench: Bench, play: Play, action: Action, outcome: Outcome) -> bool:
    """Store the step and advance the episode in one transaction. End the episode if the step ended it."""
    step = bench.record(action, outcome)
    notes = play.notes()
    if bench.ending is Ending.SUBMITTED:
        return lease.commit(phase="verdict", pending=None, **notes)
    if bench.ending is Ending.QUIT:
        return lease.finish("quit", pending=None, **notes)
    row = _row(lease.row, step)
    # The transition and the episode's position are one commit: after a crash, a step is either stored and passed
    # or neither.
    cursor: dict[str, Any] = {"phase": "agent", "pending": None, "next_number": step.number + 1, **notes}
    if bench.ending:
        return lease.commit(row.save, status=bench.ending.value, ended_at=timezone.now(), **cursor)
    return lease.commit(row.save, awaits_person=play.by_person, **cursor)


def _row(episode: Episode, step: Step) -> Transition:
    return Transition(
        episode=episode,
        number=step.number,
        # A model may invent a name of any length; the step itself has it in full.
        action_name=step.action.name[:80],
        accepted=step.outcome.success,
        rejected_by=str(step.outcome.rejected_by),
        step=step_to_json(step),
        content_sha256=laboratory.content_digest(step),
        findings=checking.findings(step),
    )
