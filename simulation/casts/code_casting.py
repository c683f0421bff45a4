"""Create the agent and the helper of a code cast."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulation.casts.casting import PromptTools
from simulation.casts.run_config import FIXED, RunConfig, get_default_code_arm
from simulation.lab.errors import LabError
from simulation.llm.coding.agent import LLMCodingAgent
from simulation.llm.coding.context import CodeContext
from simulation.llm.coding.helper import CodeHelper
from simulation.llm.coding.pipeline import FixedCodingAgent
from simulation.replication.agents import build_offline_agent
from simulation.replication.values import CodingAgent, Task


def build_coding_agent(
    setup: RunConfig,
    task: Task,
    function_ids: Sequence[str],
    seed: int,
    prompter: PromptTools,
    conditions: Mapping[str, Any],
) -> CodingAgent:
    """Return the agent of one code episode: rules, a language model with tools, or the fixed pipeline.

    `conditions` are those of the run: `paper`, `code` and `docs`. `code` is what a prompt shows of the code base at the start.
    """
    player, docs = setup.agent, conditions.get("docs", "kept")
    if not player.model:
        return build_offline_agent(player.plays, task, tuple(function_ids), seed, docs)
    code = conditions.get("code") or get_default_code_arm(player.scaffold)
    context = CodeContext(task, function_ids, conditions.get("paper", "full"), code, docs)
    speak, texts = prompter.speaker(player), prompter.texts()
    if player.scaffold == FIXED:
        return FixedCodingAgent(speak, texts, prompter.memory, context)
    return LLMCodingAgent(
        speak,
        texts,
        player.scaffold,
        player.history,
        prompter.memory,
        player.tools,
        context.render_code_section(),
        setup.get_context_limit(player),
        player.params.max_tokens,
    )


def build_helper(setup: RunConfig, prompter: PromptTools) -> CodeHelper:
    """Return the helper of a code cast. Raises LabError if it has none."""
    if setup.helper is None:
        raise LabError("this cast has no helper")
    return CodeHelper(prompter.speaker(setup.helper), prompter.texts())
