"""The laboratory as a Gymnasium environment: episodes of one experiment, and the spaces of actions and observations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium
import numpy as np

from simulation.lab import action_format, rendering
from simulation.lab.action_format import MAX_LENGTH
from simulation.lab.actions import SUBMIT, Action, Catalogue
from simulation.lab.bench import MANIFEST, Bench, Ending, Step
from simulation.lab.environment import chat, tool_schemas
from simulation.lab.environment.text_space import UnicodeText
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import PREFIX, ProtocolMask
from simulation.lab.hidden_steps.written_protocols import write_protocol
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Outcome, RejectedBy, Verdict
from simulation.lab.roles import Agent, EvidenceClassifier, TranscriptStep, TransitionModel
from simulation.lab.truths import truth_seeds
from wetbench_site.validation import format_problem

_UNREADABLE = "(unreadable)"
Reward = Literal["binary", "shaped"]
_SEEDS = 2**31  # number of possible seeds for roles and barcodes; 31 bits fit into any integer column


class ActionSpace(UnicodeText):
    """The space of agents' actions: text, an action as an object with a name, a tool call, or a message with one."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(MAX_LENGTH, seed)

    def contains(self, x: Any) -> bool:
        if isinstance(x, Mapping):
            # Only the shape is checked: the environment accepts an unknown action and records it as a rejected step.
            if tool_schemas.is_tool_call(x):
                return True
            return isinstance(x.get("name"), str) and set(x) <= {"name", "materials", "parameters"}
        return super().contains(x)


class SimulatedRoles(NamedTuple):
    """The roles besides the agent: the transition model and the evidence classifier.

    `measure_evidence` returns the share of evidence that a transcript has, from 0 to 1; the shaped reward needs it.
    `follow_protocol` returns an agent that does the first n steps of the reference protocol and then submits; masks that
    help with a prefix need it.
    """

    transition_model: TransitionModel
    evidence_classifier: EvidenceClassifier
    measure_evidence: Callable[[Sequence[TranscriptStep]], float] | None = None
    follow_protocol: Callable[[int], Agent] | None = None


class MakeRoles(Protocol):
    """A function that creates the roles for one episode. The same seed must give roles with the same behaviour."""

    def __call__(self, spec: ExperimentSpec, seed: int) -> SimulatedRoles: ...


class WetLabEnv(gymnasium.Env[str, str | Mapping[str, Any]]):
    """An environment for one experiment. An action is text, an object or a tool call; an observation is text.

    The binary reward is 1.0 for a submission judged sufficient, otherwise 0. The shaped reward adds
    discount * potential(after) - potential(before), where the potential is the share of evidence lines that are met, and
    0 once the episode has ended: so the best policy is the same as for the binary reward (Ng, Harada and Russell 1999).

    An episode is terminated by submitting, quitting or three consecutive rejections, and truncated when all steps are used.
    What cannot be parsed as an action counts as a rejected step. ManifestMaterials is off unless `manifest` is True. Each
    episode has a hidden truth of a seed of the split `truths`. Nothing here reads a clock: the same seed and the same
    actions give the same episode.

    With `masks`, the agent reads the reference protocol without the steps that a mask hides. Every episode draws one of the
    masks. If it helps with a prefix, `reset` does the steps before the first hidden one; they use up steps.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        experiment: ExperimentSpec,
        catalogue: Catalogue,
        players: MakeRoles,
        render_mode: str | None = None,
        manifest: bool = False,
        truths: str = truth_seeds.TRAIN,
        reward: Reward = "binary",
        discount: float = 1.0,
        masks: Sequence[ProtocolMask] = (),
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}; allowed: ansi")
        if reward not in ("binary", "shaped"):
            raise ValueError(f"reward is {reward!r}; allowed: binary, shaped")
        if not 0 < discount <= 1:
            raise ValueError(f"discount is {discount!r}; allowed: above 0, at most 1")
        truth_seeds.get_truth_seed(truths, 0)  # raises LabError for an unknown split
        self.truths, self.reward, self.discount = truths, reward, discount
        self.experiment, self.make_players = experiment, players
        self.masks = tuple(masks)
        self.mask: ProtocolMask | None = None  # of this episode
        self.given_steps = 0  # of this episode: done by `reset`
        self.manifest = tuple(draft for _, draft in experiment.manifest) if manifest else None
        self.catalogue = catalogue if manifest else catalogue.without_action(MANIFEST)
        self.render_mode = render_mode
        # Both spaces are text, because an episode is a dialogue; arrays could not hold it.
        self.action_space, self.observation_space = ActionSpace(), UnicodeText()
        self.bench: Bench | None = None
        self.verdict: Verdict | None = None
        self.messages: list[chat.Message] = []  # the episode so far, for chat models
        self._potential = 0.0

    def build_tools(self, style: tool_schemas.ToolStyle = "openai") -> list[dict[str, Any]]:
        """Return the actions as tools of a chat model, each with the JSON schema of its arguments."""
        return tool_schemas.build_tools(self.catalogue, style)

    def measure_evidence(self) -> float:
        """Return the share of evidence lines that the record meets, from 0 to 1. Raises ValueError if nothing can measure it."""
        if self.players.measure_evidence is None:
            raise ValueError("the roles of this environment cannot measure evidence")
        return self.players.measure_evidence(self.bench.get_transcript()) if self.bench else 0.0

    @property
    def instructions(self) -> str:
        """Return all actions and the answer format as text. It is the same in every step, so observations omit it."""
        return rendering.render_instructions(self.catalogue)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # Each episode draws its seed from Gymnasium's generator: the same reset seed gives the same series of episodes.
        number, truth_number = (int(drawn) for drawn in self.np_random.integers(_SEEDS, size=2))
        truth_seed = truth_seeds.get_truth_seed(self.truths, truth_number)
        self.mask = self._choose_mask((options or {}).get("mask"))
        self.experiment = self.experiment.draw_truth((options or {}).get("truth_seed", truth_seed))
        self.players = self.make_players(self.experiment, number)
        self.bench = Bench(
            goal=self.experiment.goal,
            catalogue=self.catalogue,
            inventory=build_inventory(self.experiment.initial_materials(), number),
            seed=number,
            max_steps=self.experiment.max_steps,
            manifest=self.manifest,
            protocol=write_protocol(self.experiment, self.mask.hidden) if self.mask else "",
        )
        self.verdict, self.messages = None, chat.build_opening(self.bench.get_situation())
        self.given_steps = self._do_given_steps(self.bench, self.mask) if self.mask else 0
        situation = self.bench.get_situation()
        self._potential = self.measure_evidence() if self.reward == "shaped" else 0.0
        return rendering.render_situation(situation), self._build_info(self.bench, None)

    def step(self, action: str | Mapping[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        bench = self.bench
        if bench is None or bench.ending is not None:
            raise gymnasium.error.ResetNeeded("The episode has ended or has not begun: call reset() first")
        last_step, call_id = self._try_action(bench, action)
        self.messages += chat.build_turn(bench, last_step, call_id=call_id)
        ending: Ending | None = bench.ending
        if ending == Ending.SUBMITTED:
            # The classifier is called only after a submission: no other ending claims that the evidence is sufficient.
            self.verdict = self.players.evidence_classifier.judge_evidence(bench.goal, bench.get_transcript())
        reward = 1.0 if self.verdict is not None and self.verdict.sufficient else 0.0
        if self.reward == "shaped":
            reward += self._shape_reward(ended=ending is not None)
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

    def _choose_mask(self, key: str | None) -> ProtocolMask | None:
        """Return the mask with this key, or one drawn from the generator; None without masks. Raises LabError if there is none."""
        if key is not None:
            by_key = {mask.key: mask for mask in self.masks}
            if key not in by_key:
                raise LabError(f"mask: {format_problem(key, ', '.join(by_key) or 'none, since no step is hidden')}")
            return by_key[key]
        # Nothing is drawn for one mask or none, so that these episodes have the seeds of an environment without masks.
        if len(self.masks) < 2:
            return next(iter(self.masks), None)
        return self.masks[int(self.np_random.integers(len(self.masks)))]

    def _do_given_steps(self, bench: Bench, mask: ProtocolMask) -> int:
        """Do the steps before the first hidden one if the mask helps with a prefix. Return how many were done."""
        if mask.help != PREFIX:
            return 0
        if self.players.follow_protocol is None:
            raise LabError("the roles of this environment cannot do the steps of a prefix")
        n_given = len(self.experiment.protocol) if mask.steps_before is None else mask.steps_before
        agent = self.players.follow_protocol(n_given)
        while (action := agent.choose_action(bench.get_situation())).name != SUBMIT:
            self.messages += chat.build_turn(bench, bench.take_step(action, self.players.transition_model))
        return bench.steps_used

    def _shape_reward(self, ended: bool) -> float:
        """Return the difference of potentials that this step adds to the reward, and keep the potential."""
        # At the end the potential is zero however the episode ends. Otherwise evidence that is gathered and never
        # submitted would be worth something, and the best policy would change.
        before, self._potential = self._potential, 0.0 if ended else self.measure_evidence()
        return self.discount * self._potential - before

    def _try_action(self, bench: Bench, action: str | Mapping[str, Any]) -> tuple[Step, str]:
        """Return the step that this action gives, and the id of the tool call, "" if it is none."""
        call_id = ""
        try:
            if isinstance(action, Mapping) and tool_schemas.is_tool_call(action):
                call_id, action = tool_schemas.read_tool_call(action)
            parsed = action_format.parse_action(action)
        except action_format.ActionFormatError as error:
            # Recorded like any rejected step, so that it counts against the limits.
            rejected = Outcome.make_rejected(str(error), RejectedBy.PARSER)
            return bench.record_outcome(Action(_UNREADABLE), rejected), call_id
        return bench.take_step(parsed, self.players.transition_model), call_id

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
            "truth_seed": self.experiment.truth_seed,
            "mask": self.mask.to_json() | {"key": self.mask.key} if self.mask else None,
            "given_steps": self.given_steps,
        }
