"""Plays one unit of an episode: at most one call of one model, then one committed step."""

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
    """Play the unit that the episode's phase names. True if this worker's result stands."""
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
    """The agent's turn. What the catalogue refuses, and submit and quit, need no transition model."""
    try:
        chosen = play.cast.agent.choose(bench.situation())
    except wire.WireError as error:
        unread = Outcome.rejected(str(error), RejectedBy.PARSER)
        return _commit_step(lease, bench, play, Action(UNREADABLE), unread)
    action, outcome = bench.attempt(chosen)
    if outcome is None:
        return lease.commit(phase="transition", pending=action.to_json(), **play.notes())
    return _commit_step(lease, bench, play, action, outcome)


def _answer(lease: Lease[Episode], bench: Bench, play: Play) -> bool:
    """The transition model's turn."""
    chosen = lease.row.pending
    assert chosen is not None, "the constraint episode_pending_in_transition"
    action = Action.from_json(chosen)
    outcome = play.cast.transition_model.predict(action, bench.situation())
    return _commit_step(lease, bench, play, action, outcome)


def _judge(lease: Lease[Episode], bench: Bench, play: Play) -> bool:
    """The evidence classifiers' turn after a submission, one a unit; what the panel says changes nothing.

    An episode that had ended is here again for verdicts that were requested again: whatever keeps one from being given, it ends
    as it had.
    """
    episode = lease.row
    done = {*episode.reviews.values_list("classifier", flat=True)}
    done |= {*episode.missing_reviews.filter(requested_at=None).values_list("classifier", flat=True)}
    owed = [judge for judge in play.cast.judges if judge.name not in done]
    if not owed:
        return lease.finish("submitted")
    judge, primary = owed[0], owed[0].name == play.cast.judges[0].name
    try:
        review: Callable[[], None] = partial(_keep_verdict, _review(episode, bench, judge, primary))
    except (*units.FAULTS, Held) as fault:
        # A panel member that is gone for good (its model was retired, say) does not keep the episode from ending.
        again = episode.verdict_requests > 0
        if primary or (isinstance(fault, Held) and fault.reason != "bad_request" and not again):
            raise
        reason = fault.reason if isinstance(fault, Held) else units.reason(fault)
        review = partial(_note_missing, episode, judge.name, reason, str(fault)[:2000])
    return lease.finish("submitted", also=review) if len(owed) == 1 else lease.commit(review)


def _note_missing(episode: Episode, classifier: str, reason: str, error: str) -> None:
    given = {"reason": reason, "error": error, "requested_at": None}
    MissingReview.objects.update_or_create(episode=episode, classifier=classifier, defaults=given)


def _give_up_requests(lease: Lease[Episode]) -> bool:
    """End an episode as it had ended before missing verdicts were requested again; they stay missing."""
    rows = MissingReview.objects.filter(episode=lease.row)
    return lease.finish("submitted", also=lambda: rows.update(requested_at=None), cancel_requested_at=None)


def _keep_verdict(review: EvidenceReview) -> None:
    """Store a verdict, and that it is missing no more."""
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
    """Store the step and move the cursor in one transaction; end the episode if the step ended it."""
    step = bench.record(action, outcome)
    notes = play.notes()
    if bench.ending is Ending.SUBMITTED:
        return lease.commit(phase="verdict", pending=None, **notes)
    if bench.ending is Ending.QUIT:
        return lease.finish("quit", pending=None, **notes)
    row = _row(lease.row, step)
    cursor: dict[str, Any] = {"phase": "agent", "pending": None, "next_number": step.number + 1, **notes}
    if bench.ending:
        return lease.commit(row.save, status=bench.ending.value, ended_at=timezone.now(), **cursor)
    return lease.commit(row.save, awaits_person=play.by_person, **cursor)


def _row(episode: Episode, step: Step) -> Transition:
    return Transition(
        episode=episode,
        number=step.number,
        action_name=step.action.name[:80],
        accepted=step.outcome.success,
        rejected_by=str(step.outcome.rejected_by),
        step=step_to_json(step),
        content_sha256=laboratory.content_digest(step),
        findings=checking.findings(step),
    )
