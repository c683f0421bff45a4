"""Masks of protocols for episodes: drawn when a run is ordered, and what the rubric says about the steps that were hidden."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from simulation.casts import prompt_store, run_config
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import HELP_MODES, MODES, PREFIX, TEXT, Drawing, ProtocolMask
from simulation.models import Episode, Experiment
from simulation.runs import benches
from wetbench_site.validation import format_problem

MAX_HIDDEN = 30  # more steps than any reference protocol has
MAX_DRAWS = 1000
MAX_EPISODES = 20_000  # of one order


class MaskOrder(NamedTuple):
    """The masks of a run: each experiment gets `drawing.per_n` masks for each number of hidden steps in `hide`."""

    hide: tuple[int, ...]
    drawing: Drawing = Drawing()

    def check(self) -> None:
        """Raise LabError, with all problems, if this order can have no masks."""
        problems = [
            f"hidden steps: {format_problem(n, f'0 to {MAX_HIDDEN}')}" for n in self.hide if not 0 <= n <= MAX_HIDDEN
        ]
        if not self.hide or len(set(self.hide)) < len(self.hide):
            problems.append("hidden steps: give at least one number, and each only once")
        for name, value, allowed in (
            ("mode", self.drawing.mode, MODES),
            ("help", self.drawing.help, HELP_MODES),
        ):
            if value not in allowed:
                problems.append(f"{name}: {format_problem(value, ', '.join(allowed))}")
        if not 1 <= self.drawing.per_n <= MAX_DRAWS:
            problems.append(f"draws: {format_problem(self.drawing.per_n, f'1 to {MAX_DRAWS}')}")
        if self.drawing.seed < 0:
            problems.append(f"mask seed: {format_problem(self.drawing.seed, '0 or more')}")
        if problems:
            raise LabError("; ".join(problems))

    def to_json(self) -> dict[str, object]:
        return {"hide": list(self.hide), "draws": self.drawing.per_n, "mode": self.drawing.mode,
                "help": self.drawing.help, "mask_seed": self.drawing.seed}  # fmt: skip


def draw_masks(experiments: Iterable[Experiment], order: MaskOrder) -> dict[int, list[ProtocolMask]]:
    """Return the masks of each experiment by its primary key. Raises LabError that names experiments with too few essential steps."""
    # Imported on use: few processes order masks, and what runs protocols takes long to load.
    from simulation.offline.hidden_steps import essential_steps

    order.check()
    experiments = list(experiments)
    essential = {experiment.pk: get_essential_steps(experiment) for experiment in experiments}
    check_essential_steps(experiments, max(order.hide))
    catalogue = benches.get_current_catalogue()
    return {
        row.pk: essential_steps.draw_masks(
            benches.get_specification(row), catalogue, essential[row.pk], order.drawing, sorted(order.hide)
        )
        for row in experiments
    }


def check_essential_steps(experiments: Iterable[Experiment], n: int) -> None:
    """Raise LabError that names the experiments with fewer than n essential steps, as far as these were found."""
    known = {row.slug: len(row.essential_steps) for row in experiments if row.essential_steps is not None}
    if short := [f"{slug} has {number}" for slug, number in known.items() if number < n]:
        raise LabError(
            f"{n} essential steps cannot be hidden: {'; '.join(short)}. Hide fewer, or leave these experiments out"
        )


def get_essential_steps(experiment: Experiment) -> tuple[int, ...]:
    """Return the numbers of the essential steps, and store them at first use. Raises LabError if there are none to find."""
    if experiment.essential_steps is None:
        from simulation.offline.hidden_steps import essential_steps

        found = essential_steps.find_essential_steps(
            benches.get_specification(experiment), benches.get_current_catalogue()
        )
        experiment.essential_steps = list(found.essential)
        # Only for the version that was run: `load_lab` may have replaced it meanwhile.
        rows = Experiment.objects.filter(pk=experiment.pk, sha256=experiment.sha256)
        rows.update(essential_steps=experiment.essential_steps)
    return tuple(experiment.essential_steps)


def check_agent(cast: str, setup: Mapping[str, Any], drawing: Drawing) -> None:
    """Raise LabError if the agent of this cast cannot continue after steps that were done for it."""
    rules = run_config.RULE_BASED_CASTS.get(cast)
    agent = rules.agent if rules else setup["cast"]["agent"].get("plays")
    if drawing.help == PREFIX and agent == run_config.LAPSES:
        # It finds its place in the protocol from its own earlier choices, which the prefix replaces.
        raise LabError(f"help: is {PREFIX!r}; allowed for an agent with lapses: {TEXT}")


def choose_prompt_set(setup: Mapping[str, Any], prompt_set: str) -> str:
    """Return the prompt set of a run with masks: the given one, or the built-in one that has a place for a protocol.

    Raises LabError if a language model is the agent and the given set has no such place, so that it would not see the protocol.
    """
    if not any(role == "agent" for role, _ in run_config.list_models(setup)):
        return prompt_set
    row = prompt_store.get_protocol_set(prompt_set) if prompt_set else prompt_store.get_protocol_set()
    return f"{row.name}@{row.sha256}"


class HiddenLine(NamedTuple):
    """A rubric line that the hidden steps had counted for, and whether the record of an episode meets it all the same."""

    text: str
    met: bool
    reason: str


def judge_hidden_lines(episode: Episode) -> list[HiddenLine]:
    """Return the rubric lines that are missed without the hidden steps, as the checklist judges them for this episode.

    The checklist reads the stored record, also if another classifier judged the episode.
    """
    mask = ProtocolMask.from_json(episode.mask)
    if mask is None or not mask.lines:
        return []
    from simulation.offline.checklist import ChecklistClassifier  # on use, as above

    checklist = ChecklistClassifier(benches.get_specification(episode.experiment).rubric)
    findings = checklist.evaluate_lines(benches.build_bench(episode).get_transcript())
    return [
        HiddenLine(finding.line.text, finding.met, finding.reason)
        for finding in findings
        if finding.line.line in mask.lines
    ]
