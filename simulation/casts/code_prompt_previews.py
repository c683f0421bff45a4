"""The first prompt of an agent that edits code, or of the fixed pipeline, for one mask of a task. Nothing is sent."""

import re
from dataclasses import dataclass

from simulation.casts.prompt_previews import capture_prompt
from simulation.lab.errors import LabError
from simulation.llm.coding.agent import LLMCodingAgent
from simulation.llm.coding.context import CodeContext
from simulation.llm.coding.pipeline import FixedCodingAgent
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.replication.agents.playing import WITHOUT_COST
from simulation.replication.tasks.mask_draws import MODES, draw_masks
from simulation.replication.tasks.workspaces import render_brief
from simulation.replication.values import CodeArm, CodeSituation, CodingAgent, DocsArm, LimitsLeft, PaperArm, Task

CODE_ROLE = "code"
_MASK_KEY = re.compile(r"([a-z])(\d{1,3})-(\d{3,4})")


@dataclass(frozen=True)
class CodePreviewRequest:
    """Which prompt is shown: the first one of a scaffold, for a mask of a task under the conditions of a run."""

    task: Task
    mask: str  # key of a drawn mask with the usual seed
    texts: PromptTexts
    scaffold: str
    paper: PaperArm = "full"
    code: CodeArm = "none"
    docs: DocsArm = "kept"


def build_code_preview(request: CodePreviewRequest) -> Prompt:
    """Return the prompt. Raises LabError for a mask or a scaffold that there is not."""
    functions = find_mask(request.task, request.mask)
    context = CodeContext(request.task, functions, request.paper, request.code, request.docs)

    def build_agent(speak: CompletionFunction) -> CodingAgent:
        if request.scaffold == "fixed":
            return FixedCodingAgent(speak, request.texts, {}, context)
        section = context.render_code_section()
        return LLMCodingAgent(speak, request.texts, request.scaffold, {"kind": "full"}, {}, code=section)

    if request.scaffold == "fixed" and not functions:
        raise LabError(f"The mask {request.mask} hides nothing, so the fixed pipeline asks no model")
    left = LimitsLeft(WITHOUT_COST.steps, WITHOUT_COST.seconds, None)
    situation = CodeSituation(render_brief(request.task, functions, request.paper), {}, "", (), left)
    return capture_prompt(lambda speak: build_agent(speak).choose_tool(situation))


def find_mask(task: Task, key: str) -> tuple[str, ...]:
    """Return the hidden functions of a drawn mask by its key, such as "u3-004". Raises LabError."""
    match = _MASK_KEY.fullmatch(key)
    mode = next((mode for mode in MODES if match and mode[0] == match[1]), None)
    if match is None or mode is None:
        initials = ", ".join(f"{mode[0]} ({mode})" for mode in MODES)
        raise LabError(
            f"{key[:40]!r} is no key of a mask; allowed: {initials}, then n, a hyphen and a number, as in u3-004"
        )
    n, index = int(match[2]), int(match[3])
    drawn = draw_masks(task, n, index, mode)
    if not 1 <= index <= len(drawn):
        raise LabError(f"There is no mask {key} of {task.slug}; allowed: 001 to {len(drawn):03}")
    return drawn[index - 1].functions
