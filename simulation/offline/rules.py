"""The rule-based transition model. It computes volumes, amounts, states and declared readings, or rejects the action."""

from collections.abc import Mapping
from decimal import Context, Decimal, localcontext
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Outcome
from simulation.lab.parameters import ParameterError
from simulation.lab.roles import Situation
from simulation.offline.action_context import REASONINGS, ActionContext
from simulation.offline.bench_notes import record_notes
from simulation.offline.declarations import react_on_contact
from simulation.offline.handlers import HANDLERS
from simulation.offline.handlers.dryness import cool_in_air
from simulation.offline.handlers.evaporation import evaporate
from simulation.offline.vessels import Phase, RefusalError, Vessel
from simulation.offline.volumetric import DeliveryErrors

# Handlers that put materials into an incubator or leave them where they are. After any other, materials in an incubator
# move to the bench.
_IN_PLACE = ("incubate", "culture", "wait", "storage", "separate_wells")
# Enough digits that no sum or difference of amounts is ever rounded.
_EXACT = Context(prec=60)


class RuleBasedTransitionModel:
    """A deterministic model: the same seed, step and materials give the same outcome. `truth` is the experiment's hidden data."""

    def __init__(self, seed: int, truth: Mapping[str, Any] | None = None) -> None:
        self.seed = seed
        self.truth = truth or {}

    def predict_outcome(self, action: Action, situation: Situation) -> Outcome:
        """Return the outcome of an action that the catalogue accepts, or a rejection that states the reason with its numbers.

        Raises LabError if no handler can carry out the action.
        """
        try:
            # A local context, so that the precision does not leak into the caller's arithmetic.
            with localcontext(_EXACT):
                context = self._build_context(action, situation)
                kind = context.action_type
                if kind.handler not in HANDLERS:
                    raise LabError(f"the rule-based cast has no handler {kind.handler!r} for {kind.name}")
                HANDLERS[kind.handler](context)
                vessels = [vessel for vessel in context.vessels.values() if not vessel.unlimited] + context.new_vessels
                # Reactions on contact come last, because only now has everything been poured that this step pours.
                for vessel in vessels:
                    react_on_contact(context, vessel)
                    if context.action_type.handler not in _IN_PLACE:
                        vessel.leave_incubator()
                record_notes(context, vessels)
                return Outcome(
                    success=True,
                    new_materials=tuple(vessel.build_new_material() for vessel in vessels),
                    new_observations=tuple(context.observations),
                    reasoning=context.reasoning or REASONINGS[context.action_type.handler],
                    fidelity=context.action_type.fidelity,
                )
        except (RefusalError, ParameterError) as refusal:
            return Outcome.make_rejected(str(refusal))

    def _build_context(self, action: Action, situation: Situation) -> ActionContext:
        kind = situation.catalogue.find_type(action.name)
        if kind is None:
            raise RefusalError(f"There is no action {action.name[:60]!r}")
        # With the step number, repeating an action gives new noise, and replaying a step gives the same.
        seed_parts = (self.seed, len(situation.history) + 1)
        vessels, waited = {}, {}
        for code in action.materials:
            material = situation.inventory.get(code)
            if material is None:
                raise RefusalError(f"There is no material {code[:20]!r} on the bench")
            vessels[code] = Vessel.from_material(material, situation.elapsed)
            vessels[code].errors = DeliveryErrors(seed_parts)
            # Ice keeps, and what was frozen until now has only just thawed.
            if not vessels[code].unlimited and material.properties.get("phase") != Phase.FROZEN:
                waited[code] = Decimal(situation.elapsed - material.last_modified)
        context = ActionContext(
            action_type=kind,
            values=kind.parse_parameters(action),
            parameters_as_written=action.parameters,
            vessels=vessels,
            truth=self.truth,
            seed_parts=seed_parts,
            taken_names={material.name for material in situation.inventory},
        )
        for code, seconds in waited.items():
            temperature = vessels[code].get_temperature()
            context.expose(vessels[code], seconds, temperature)
            evaporate(vessels[code], seconds, temperature)
            cool_in_air(vessels[code], seconds)
        return context
