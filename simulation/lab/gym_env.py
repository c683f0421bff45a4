"""The laboratory as a Gymnasium environment: episodes of one experiment, and the spaces of actions and observations."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces

from simulation.lab import action_format, rendering
from simulation.lab.action_format import MAX_LENGTH
from simulation.lab.actions import Action, Catalogue
from simulation.lab.bench import MANIFEST, Bench, Ending, Step
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Outcome, RejectedBy, Verdict
from simulation.lab.roles import EvidenceClassifier, TransitionModel
from wetbench_site.text import is_storable

# Samples are drawn from these: enough to show what a text may contain, few enough to read.
_LETTERS = "ACTIONMATERIALSPARAMETERS: =,{}\n0123456789µ°Δ²³≥×–äé"
_MAX_SAMPLE_LENGTH = 200  # characters of a random sample; the space itself is larger
_UNREADABLE = "(unreadable)"
_SEEDS = 2**31  # number of possible seeds for roles and barcodes; 31 bits fit into any integer column


class UnicodeText(spaces.Space[str]):
    """The space of all texts of at most `max_length` characters without NUL and unpaired surrogates."""

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask is not None or probability is not None:
            raise ValueError("a text cannot be masked")
        length = int(self.np_random.integers(0, min(self.max_length, _MAX_SAMPLE_LENGTH) + 1))
        return "".join(_LETTERS[index] for index in self.np_random.integers(0, len(_LETTERS), size=length))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length and is_storable(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((type(self), self.max_length))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_length})"


class ActionSpace(UnicodeText):
    """The space of agents' actions: text, or an object with a name and optionally materials and parameters."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(MAX_LENGTH, seed)

    def contains(self, x: Any) -> bool:
        if isinstance(x, Mapping):
            # Only the shape is checked: the environment accepts an unknown action and records it as a rejected step.
            return isinstance(x.get("name"), str) and set(x) <= {"name", "materials", "parameters"}
        return super().contains(x)


class SimulatedRoles(NamedTuple):
    """The roles besides the agent: the transition model and the evidence classifier."""

    transition_model: TransitionModel
    evidence_classifier: EvidenceClassifier


class MakeRoles(Protocol):
    """A function that creates the roles for one episode. The same seed must give roles with the same behaviour."""

    def __call__(self, spec: ExperimentSpec, seed: int) -> SimulatedRoles: ...


class WetLabEnv(gymnasium.Env[str, str | Mapping[str, Any]]):
    """An environment for one experiment. An action is text in the action format or an object; an observation is text.

    The reward is 1.0 for a submission judged sufficient, otherwise 0. An episode is terminated by submitting, quitting
    or three consecutive rejections, and truncated when all steps are used. Text that cannot be parsed as an action
    counts as a rejected step. ManifestMaterials is off unless `manifest` is True. Nothing here reads a clock: the same
    seed and the same actions give the same episode.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        experiment: ExperimentSpec,
        catalogue: Catalogue,
        players: MakeRoles,
        render_mode: str | None = None,
        manifest: bool = False,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; allowed: ansi")
        self.experiment, self.make_players = experiment, players
        self.manifest = tuple(draft for _, draft in experiment.manifest) if manifest else None
        self.catalogue = catalogue if manifest else catalogue.without_action(MANIFEST)
        self.render_mode = render_mode
        # Both spaces are text, because an episode is a dialogue; arrays could not hold it.
        self.action_space, self.observation_space = ActionSpace(), UnicodeText()
        self.bench: Bench | None = None
        self.verdict: Verdict | None = None

    @property
    def instructions(self) -> str:
        """Return all actions and the answer format as text. It is the same in every step, so observations omit it."""
        return rendering.render_instructions(self.catalogue)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # Each episode draws its seed from Gymnasium's generator: the same reset seed gives the same series of episodes.
        number = int(self.np_random.integers(_SEEDS))
        self.players = self.make_players(self.experiment, number)
        self.bench = Bench(
            goal=self.experiment.goal,
            catalogue=self.catalogue,
            inventory=build_inventory(self.experiment.initial_materials(), number),
            seed=number,
            max_steps=self.experiment.max_steps,
            manifest=self.manifest,
        )
        self.verdict = None
        return rendering.render_situation(self.bench.get_situation()), self._build_info(self.bench, None)

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        bench = self.bench
        if bench is None or bench.ending is not None:
            raise gymnasium.error.ResetNeeded("The episode has ended or has not begun: call reset() first")
        last_step = self._try_action(bench, action)
        ending: Ending | None = bench.ending
        if ending == Ending.SUBMITTED:
            # The classifier is called only after a submission: no other ending claims that the evidence is sufficient.
            self.verdict = self.players.evidence_classifier.judge_evidence(bench.goal, bench.get_transcript())
        reward = 1.0 if self.verdict is not None and self.verdict.sufficient else 0.0
        truncated = ending == Ending.TRUNCATED
        observation = rendering.render_situation(bench.get_situation())
        return observation, reward, ending is not None and not truncated, truncated, self._build_info(bench, last_step)

    def render(self) -> str | None:
        """Return the episode so far as text, or None unless `render_mode` is "ansi"."""
        if self.render_mode is None:
            return None
        if self.bench is None:
            return "The episode has not begun."
        text = rendering.render_transcript(self.bench.goal, self.bench.history, self.bench.ending or "")
        if not (verdict := self.verdict):
            return text
        state = "VALID" if verdict.sufficient else "INVALID"
        return f"{text}\n\nVERDICT: {state} ({verdict.confidence}). {verdict.reasoning}"

    def _try_action(self, bench: Bench, action: str | Mapping[str, Any]) -> Step:
        try:
            parsed = action_format.parse_action(action)
        except action_format.ActionFormatError as error:
            # Recorded like any rejected step, so that it counts against the limits.
            return bench.record_outcome(Action(_UNREADABLE), Outcome.make_rejected(str(error), RejectedBy.PARSER))
        return bench.take_step(parsed, self.players.transition_model)

    def _build_info(self, bench: Bench, done: Step | None) -> dict[str, Any]:
        outcome = done.outcome if done else None
        return {
            "step": bench.steps_used,
            "elapsed": bench.elapsed,
            "rejected": outcome.failure_reason if outcome else "",
            "rejected_by": str(outcome.rejected_by) if outcome else "",
            "fidelity": outcome.fidelity if outcome else "",
            "ending": str(bench.ending) if bench.ending else "",
            "verdict": self.verdict.to_json() if self.verdict else None,
        }
