"""Code episodes played end to end: the real SDKs, the scripted server in a process of its own, tools, and real sandboxes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulation.casts import RunConfig
from simulation.casts.casting import PromptTools
from simulation.casts.code_casting import build_coding_agent, build_helper
from simulation.casts.data_files import complete_code_cast
from simulation.casts.run_config import RoleConfig
from simulation.llm.prompt_sets import load_built_in_code
from simulation.providers import CompletionFunction, connections
from simulation.replication.agents.playing import PlayedEpisode, play_episode
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.masking import read_gold_bodies
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tasks.workspaces import BRIEF, build_workspace
from simulation.replication.values import Task, ToolCall
from simulation.replication.wire import format_call
from simulation.scripted_server import Server, run_in_process
from tests.support.small_tasks import write_small_task

# By hand: the mean of 1, 3 and 5 less 1, and their standard deviation with n - 1.
DATA = {"readings.json": b'{"offset": 1, "values": [1, 3, 5]}'}
RESULTS = {"e1": {"mean": 2.0}, "e2": {"spread": 2.0}}
HIDDEN = ("f1", "f2")
MODULE = "code/small/sums.py"
MODELS = {
    "openai": {"provider": "openai", "model_id": "gpt-x", "options": {"caching": "automatic"}},
    "anthropic": {
        "provider": "anthropic",
        "model_id": "claude-x",
        "options": {"caching": "breakpoint", "api_version": "2023-06-01"},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(write_small_task(tmp_path_factory.mktemp("tasks")))


@pytest.fixture(scope="module")
def server(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was started with the reference bodies as its script."""
    bodies = read_gold_bodies(task, HIDDEN)
    offset = ToolCall(
        "replace",
        {"path": MODULE, "old": 'offset."""\n    raise NotImplementedError("hidden")', "new": f'offset."""\n    {bodies["f1"].splitlines()[-1]}'},
    )  # fmt: skip
    spread = ToolCall(
        "replace",
        {"path": MODULE, "old": 'raise NotImplementedError("hidden")', "new": "return float(np.std(values, ddof=1))"},
    )
    ask = ToolCall("understand_file", {"path": MODULE, "question": "What is hidden?"})
    keep = ToolCall("edit_file", {"path": MODULE, "instruction": "Change nothing."})
    functions = {
        "remove_offset": "def remove_offset(values, offset):\n    return values - offset",
        "spread": "def spread(self, values):\n    return float(np.std(values, ddof=1))",
    }
    path = tmp_path_factory.mktemp("script") / "script.json"
    replies = ["I would rather talk.", *map(format_call, (ask, offset, keep, spread))]
    path.write_text(json.dumps({"replies": replies, "functions": functions}))
    with run_in_process(path) as server:
        yield server


def play(
    task: Task, server: Server, provider: str, scaffold: str, hidden: tuple[str, ...], **more: Any
) -> PlayedEpisode:
    """Return an episode of a cast with one model, which the server answers."""
    params = {"max_tokens": 4000}
    helper = {} if scaffold == "fixed" else {"helper": {"model": "m", "params": params}}
    data = {
        "name": "mine",
        "description": "Mine.",
        "agent": {"model": "m", "params": params, "scaffold": scaffold, **more},
        **helper,
    }
    models = {"m": MODELS[provider]}
    setup = RunConfig.from_json({"cast": complete_code_cast(data, models), "models": models})

    def create_speaker(player: RoleConfig) -> CompletionFunction:
        connection = connections.open_connection(setup.make_endpoint(player, server.get_environ()))
        return lambda prompt: connection.send_request(connection.prepare_request(prompt, player.params), 30)

    tools = PromptTools(create_speaker, load_built_in_code, {})
    agent = build_coding_agent(setup, task, hidden, 1, tools, {"code": "lexical"})
    workspace = build_workspace(task, hidden, DATA)
    return play_episode(
        agent, workspace, workspace[BRIEF].decode(), open_sandbox(), packages=task.packages,
        helper=build_helper(setup, tools) if helper else None, tools=setup.agent.tools,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "scaffold", "history"),
    [("openai", "structured", {"kind": "window", "k": 1}), ("anthropic", "plan", {"kind": "summary", "k": 2})],
)  # fmt: skip
def test_code_episode_with_tools_and_helper_is_played_through_the_sdk(
    task: Task, server: Server, provider: str, scaffold: str, history: Any
) -> None:
    played = play(task, server, provider, scaffold, HIDDEN, history=history)
    tools = [step.call.tool if step.call else "unreadable" for step in played.steps]
    assert tools == ["unreadable", "understand_file", "replace", "edit_file", "replace", "run_script", "submit"]
    assert [step.refused for step in played.steps] == [True, False, False, False, False, False, False]
    assert played.ending == "submitted" and json.loads(played.reported) == RESULTS
    assert played.steps[1].observation == "The scripted server answers by rules and has worked out nothing."
    assert played.trees[4] == played.trees[3] != played.trees[2]  # the helper kept the file


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_fixed_pipeline_is_played_through_the_sdk(task: Task, server: Server, provider: str) -> None:
    played = play(task, server, provider, "fixed", HIDDEN)
    tools = [step.call.tool for step in played.steps if step.call]
    assert tools == ["replace", "replace", "run_script", "submit"]
    assert json.loads(played.reported) == RESULTS and played.trees[2] != played.trees[1] != played.trees[0]


def test_scripted_server_without_a_script_runs_the_experiments_and_submits_what_they_print(task: Task) -> None:
    with run_in_process() as server:
        reproduced = play(task, server, "openai", "react", ())
        played = play(task, server, "openai", "plain", HIDDEN)
    assert json.loads(reproduced.reported) == RESULTS and len(reproduced.steps) == 2
    assert (played.ending, len(played.steps)) == ("quit", 2)  # both experiments raise, so nothing was printed


def test_script_in_a_wrong_form_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"replies": "no list"}')
    with pytest.raises(RuntimeError, match="exit status 2"), run_in_process(path):
        pass
