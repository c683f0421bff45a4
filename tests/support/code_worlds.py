"""What code episodes that are disturbed are played with: a small task, a cast of language models, and their scripted replies.

`python -c` of a site's own processes calls `create_world` and `run_worker_without_fence`.
"""

import json
from pathlib import Path
from typing import Any

from simulation.replication.tools import ToolCall
from simulation.replication.wire import format_call

CAST = "scripted-coder"
CASTS = ("offline-oracle-lapses", CAST)
TASK = "small-sums"
REPLIES = 5  # of the script; the rules add one run and the submission
CREATE_WORLD = "from tests.support import code_worlds; code_worlds.create_world()"
RUN_WITHOUT_FENCE = "from tests.support import code_worlds; code_worlds.run_worker_without_fence()"


def write_script(folder: Path, pause: float) -> Path:
    """Write the replies of the language model: it writes the reference code, with commands that take `pause` seconds in between."""
    from tests.support.code_episodes import CODE

    calls = (
        ToolCall("run_command", {"command": f"sleep {pause}; echo one > notes.txt"}),
        ToolCall("write_file", {"path": "/workspace/code/small/sums.py", "text": CODE}),
        ToolCall("run_command", {"command": f"sleep {pause}; echo two >> notes.txt"}),
        ToolCall("understand_file", {"path": "/workspace/notes.txt", "question": "What is noted?"}),
        ToolCall("run_command", {"command": f"sleep {pause}; cp notes.txt copy.txt"}),
    )
    path = folder / "script.json"
    path.write_text(json.dumps({"replies": [format_call(call) for call in calls]}))
    return path


def create_world() -> None:
    """Store the task, with one planted error for each function, and the cast."""
    from simulation.casts.data_files import complete_code_cast
    from simulation.models import CastDefinition
    from simulation.replication.values import PlantedError
    from tests.support import code_episodes, model_casts

    errors = (
        PlantedError("f1", "return a - b\n", "subtle", "a sum adds", "it subtracts"),
        PlantedError("f2", "return 11 * a\n", "subtle", "ten times", "eleven times"),
    )
    code_episodes.create_task(code_episodes.build_task(errors=errors))
    model_casts.create_priced_model("a-coder")
    agent = {"model": "a-coder", "params": {"max_tokens": 4000}, "scaffold": "react"}
    models: dict[str, Any] = {"a-coder": {"provider": "openai", "model_id": "a-coder", "options": {}}}
    helper = {"model": "a-coder", "params": {"max_tokens": 4000}}
    data = complete_code_cast({"name": CAST, "description": "for tests", "agent": agent, "helper": helper}, models)
    CastDefinition.objects.create(name=CAST, description="for tests", data=data)


def run_worker_without_fence() -> None:
    """Run the embedded worker with commits that do not check the fence: the control of the tests that need it."""
    from django.core.management import call_command

    from simulation import leases
    from simulation.leases import Lease
    from simulation.models import Leased

    build_update = leases.build_update

    def build_unfenced_update(model: Any, changes: Any, columns: str = "", **conditions: Any) -> Any:
        if "lease_until" not in conditions:  # a claim has this condition too, and keeps its fence
            conditions.pop("fence")
        return build_update(model, changes, columns, **conditions)

    def filter_row(lease: Lease[Any]) -> Any:
        return type(lease.row).objects.filter(pk=lease.row.pk, status__in=Leased.RUNNABLE)

    leases.build_update = build_unfenced_update
    Lease._filter_own_row = filter_row  # type: ignore[method-assign]
    call_command("work", threads=1)
