"""Plays one unit of an episode: at most one call of one role, then one committed step."""

import logging

from django.utils import timezone

from simulation import casting, checking, laboratory, leases
from simulation.casting import Cast
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, step_to_json
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome
from simulation.leases import Lease
from simulation.models import Episode, EvidenceReview, Transition

log = logging.getLogger("wetbench.runner")


def advance(lease: Lease[Episode]) -> bool:
    """Play the unit that the episode's phase names. True if this worker's result stands."""
    episode = lease.row
    if episode.cancel_requested_at:
        return lease.finish("cancelled")
    try:
        with lease.kept():
            laboratory.refuse_changed(episode)
            bench = laboratory.bench(episode)
            cast = casting.cast(episode.cast, laboratory.specification(episode.experiment), episode.seed)
            unit = _UNITS[episode.phase]
            return unit(lease, bench, cast)
    except leases.DATABASE_AWAY:
        lease.release()
        raise
    except LabError as error:
        log.warning("episode %s failed: %s", episode.code, error)
        return lease.finish("failed", error=f"{type(error).__name__}: {error}")
    except Exception as error:
        # A bug of ours must end the episode with its name, not spin through lease after lease.
        log.exception("episode %s failed", episode.code)
        return lease.finish("failed", error=f"internal error: {type(error).__name__}: {error}")


def _choose(lease: Lease[Episode], bench: Bench, cast: Cast) -> bool:
    """The agent's turn. What the catalogue refuses, and submit and quit, need no transition model."""
    action, outcome = bench.attempt(cast.agent.choose(bench.situation()))
    if outcome is None:
        return lease.commit(phase="transition", pending=action.to_json())
    return _commit_step(lease, bench, action, outcome)


def _answer(lease: Lease[Episode], bench: Bench, cast: Cast) -> bool:
    """The transition model's turn."""
    chosen = lease.row.pending
    assert chosen is not None, "the constraint episode_pending_in_transition"
    action = Action.from_json(chosen)
    return _commit_step(lease, bench, action, cast.transition_model.predict(action, bench.situation()))


def _judge(lease: Lease[Episode], bench: Bench, cast: Cast) -> bool:
    """The evidence classifier's turn, after a submission."""
    episode = lease.row
    verdict = cast.evidence_classifier.judge(episode.experiment.goal, bench.transcript())
    review = EvidenceReview(
        episode=episode,
        classifier=casting.known(episode.cast).evidence_classifier,
        sufficient=verdict.sufficient,
        verdict=verdict.to_json(),
    )
    return lease.finish("submitted", also=review.save)


_UNITS = {"agent": _choose, "transition": _answer, "verdict": _judge}


def _commit_step(lease: Lease[Episode], bench: Bench, action: Action, outcome: Outcome) -> bool:
    """Store the step and move the cursor in one transaction; end the episode if the step ended it."""
    episode = lease.row
    step = bench.record(action, outcome)
    if bench.ending is Ending.SUBMITTED:
        return lease.commit(phase="verdict", pending=None)
    if bench.ending is Ending.QUIT:
        return lease.finish("quit", pending=None)
    row = Transition(
        episode=episode,
        number=step.number,
        action_name=action.name[:80],
        accepted=outcome.success,
        rejected_by=str(outcome.rejected_by),
        step=step_to_json(step),
        content_sha256=laboratory.content_digest(step),
        findings=checking.findings(step),
    )
    cursor = {"phase": "agent", "pending": None, "next_number": step.number + 1}
    if bench.ending:
        return lease.commit(row.save, status=bench.ending.value, ended_at=timezone.now(), **cursor)
    return lease.commit(row.save, **cursor)
