"""The first prompt of an agent that edits code, or of the fixed pipeline, for one mask of a task. Nothing is sent."""

from dataclasses import dataclass

from simulation.casts.prompt_previews import capture_prompt
from simulation.casts.run_config import FIXED, get_default_code_arm
from simulation.lab.errors import LabError
from simulation.llm.coding.agent import LLMCodingAgent
from simulation.llm.coding.context import CodeContext
from simulation.llm.coding.pipeline import FixedCodingAgent
from simulation.llm.prompt_sets import PromptTexts
from simulation.providers import CompletionFunction, Prompt
from simulation.replication.agents.playing import WITHOUT_COST
from simulation.replication.tasks.mask_draws import find_mask
from simulation.replication.tasks.workspaces import render_brief
from simulation.replication.values import CodeArm, CodeSituation, CodingAgent, DocsArm, LimitsLeft, PaperArm, Task

CODE_ROLE = "code"


@dataclass(frozen=True)
class CodePreviewRequest:
    """Which prompt is shown: the first one of a scaffold, for a mask of a task under the conditions of a run."""

    task: Task
    mask: str  # key of a drawn mask
    texts: PromptTexts
    scaffold: str
    paper: PaperArm = "full"
    code: CodeArm | None = None  # None for the default of the scaffold
    docs: DocsArm = "kept"


def build_code_preview(request: CodePreviewRequest) -> Prompt:
    """Return the prompt. Raises LabError for an unknown mask or scaffold."""
    functions = find_mask(request.task, request.mask).functions
    code = request.code or get_default_code_arm(request.scaffold)
    context = CodeContext(request.task, functions, request.paper, code, request.docs)

    def build_agent(speak: CompletionFunction) -> CodingAgent:
        if request.scaffold == FIXED:
            return FixedCodingAgent(speak, request.texts, {}, context)
        section = context.render_code_section()
        return LLMCodingAgent(speak, request.texts, request.scaffold, {"kind": "full"}, {}, code=section)

    if request.scaffold == FIXED and not functions:
        raise LabError(f"The mask {request.mask} hides nothing, so the fixed pipeline asks no model")
    left = LimitsLeft(WITHOUT_COST.steps, WITHOUT_COST.seconds, None)
    situation = CodeSituation(render_brief(request.task, functions, request.paper), {}, "", (), left)
    return capture_prompt(lambda speak: build_agent(speak).choose_tool(situation))
