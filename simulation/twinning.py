"""Makes a twin: the same inventory and action with another outcome, an error planted in it."""

import logging

from simulation import casting, checking, laboratory, leases
from simulation.lab.bench import step_from_json
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import Perturbation
from simulation.leases import Lease
from simulation.models import Twin

log = logging.getLogger("wetbench.twinning")


def advance(lease: Lease[Twin]) -> bool:
    """Perturb the transition's outcome, once. True if this worker's result stands."""
    twin = lease.row
    try:
        with lease.kept():
            step = step_from_json(twin.transition.step)
            bench = laboratory.bench(twin.transition.episode, before=twin.transition.number)
            perturber = casting.perturber(twin.cast, Perturbation(twin.perturbation), twin.seed)
            perturbed = perturber.perturb(step.action, bench.situation(), step.outcome)
            return lease.finish(
                "done",
                outcome=perturbed.outcome.to_json(),
                kind=perturbed.kind,
                rule=perturbed.rule,
                field=perturbed.field,
                why=perturbed.why,
                findings=checking.findings(step, perturbed.outcome),
            )
    except leases.DATABASE_AWAY:
        lease.release()
        raise
    except NoErrorFits as error:
        return lease.finish("unsuited", error=str(error))
    except LabError as error:
        return lease.finish("failed", error=str(error))
    except Exception as error:
        # As in the runner: a bug ends the twin with its name.
        log.exception("twin %s failed", twin.code)
        return lease.finish("failed", error=f"internal error: {type(error).__name__}: {error}")
