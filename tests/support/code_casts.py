"""Casts of language models that edit code, and what the local server answers for them in the small task of `code_episodes`."""

from decimal import Decimal
from typing import Any

from simulation.casts.data_files import complete_code_cast
from simulation.models import CastDefinition, LanguageModel, ModelPrice
from simulation.replication.values import ToolCall
from simulation.replication.wire import format_call
from simulation.scripted_server.code_answers import CodeScript
from tests.support import model_casts

MODULE = "code/small/sums.py"
# The first is unreadable, two calls are of the helper, and the edits restore both functions.
REPLIES = (
    "I would rather talk.",
    *map(
        format_call,
        (
            ToolCall("understand_file", {"path": MODULE, "question": "What is hidden?"}),
            ToolCall("replace", {"path": MODULE, "old": 'the sum."""\n    raise NotImplementedError("hidden")', "new": 'the sum."""\n    return a + b'}),
            ToolCall("edit_file", {"path": MODULE, "instruction": "Change nothing."}),
            ToolCall("replace", {"path": MODULE, "old": 'raise NotImplementedError("hidden")', "new": "return 10 * a"}),
        ),
    ),
)  # fmt: skip
FUNCTIONS = {"add": "def add(a, b):\n    return a + b", "scale": "def scale(a):\n    return 10 * a"}
SCRIPT = CodeScript(REPLIES, FUNCTIONS)
# The steps of the script, then the run and the submission that the server adds.
TOOLS = ("", "understand_file", "replace", "edit_file", "replace", "run_script", "submit")


def create_code_cast(
    scaffold: str, history: dict[str, Any] | None = None, helper: bool = True, price: Decimal = Decimal(1)
) -> str:
    """Create the cast "coder", of a model of OpenAI that edits and one of Anthropic behind two tools.

    `price` is that of a million tokens of the agent, in US dollars; the helper's cost a dollar in and two out.
    """
    model_casts.create_priced_model("a-coder")
    ModelPrice.objects.filter(model__name="a-coder").update(
        **dict.fromkeys(("input", "cache_read", "cache_write_5m", "cache_write_1h", "output"), price)
    )
    options = {"api_version": "2023-06-01", "caching": "breakpoint"}
    model_casts.create_priced_model("a-helper", "anthropic", options=options)
    params = {"max_tokens": 4000}
    data: dict[str, Any] = {"name": "coder", "description": "for tests"}
    data["agent"] = {"model": "a-coder", "params": params, "scaffold": scaffold, "history": history or {"kind": "full"}}
    if helper:
        data["helper"] = {"model": "a-helper", "params": params}
    names = LanguageModel.objects.values_list("name", "provider", "model_id", "options")
    models = {
        name: {"provider": provider, "model_id": model, "options": terms} for name, provider, model, terms in names
    }
    CastDefinition.objects.create(name="coder", description="for tests", data=complete_code_cast(data, models))
    return "coder"
