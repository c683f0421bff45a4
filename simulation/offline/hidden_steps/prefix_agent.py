"""An agent for which the steps before the first gap of a protocol are done."""

from dataclasses import dataclass, replace

from simulation.lab.actions import SUBMIT, Action
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.roles import Agent, Situation
from simulation.offline.agents import ProtocolAgent


@dataclass(frozen=True)
class PrefixAgent:
    """An agent for which the first steps of the protocol are done: `prefix` follows them, then `agent` chooses."""

    prefix: ProtocolAgent
    agent: Agent

    @classmethod
    def build(cls, spec: ExperimentSpec, n_steps: int, seed: int, agent: Agent) -> "PrefixAgent":
        """Return the agent with the first `n_steps` steps of the reference protocol as its prefix."""
        return cls(ProtocolAgent(replace(spec, protocol=spec.protocol[:n_steps]), seed), agent)

    def choose_action(self, situation: Situation) -> Action:
        return self.find_given_action(situation) or self.agent.choose_action(situation)

    def find_given_action(self, situation: Situation) -> Action | None:
        """Return the next action of the prefix, or None if all its steps were tried."""
        action = self.prefix.choose_action(situation)
        # A protocol agent submits when no step is left, which here is for the other agent to decide.
        return None if action.name == SUBMIT else action
