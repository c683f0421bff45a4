"""The adapters of docs/training.md, run as they are printed, against stand-ins with the interface of each framework."""

import asyncio
import json
import re
import sys
import types
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from simulation.lab.environment.tool_schemas import build_call
from simulation.offline import gym
from simulation.offline.agents import ProtocolAgent

REPOSITORY = Path(__file__).parents[3]
FISH = "zebrafish-genotyping"


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a thread: a browser of another test keeps the event loop of this one running."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


def load_adapter(monkeypatch, framework: str, **modules: dict[str, Any]) -> dict[str, Any]:
    """Return the names that the code block after "Framework:" defines, with stand-ins for the framework's modules."""
    for name, members in modules.items():
        module = types.ModuleType(name.replace("__", "."))
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    text = (REPOSITORY / "docs/training.md").read_text()
    match = re.search(rf"\n{framework}:\n\n```python\n(.*?)```", text, re.DOTALL)
    assert match
    names: dict[str, Any] = {"__name__": "adapter"}
    exec(match[1], names)
    return names


def choose_call(lab) -> dict[str, Any]:
    """Return the next action of the reference protocol as a tool call."""
    agent = ProtocolAgent(lab.experiment, 1)
    action = agent.choose_action(lab.bench.get_situation())
    return build_call(action.name, list(action.materials), action.parameters, f"id-{len(lab.bench.history)}")


class MultiTurnEnv:
    """Calls an environment as verifiers does: setup, then a message of the model and a response, until a stop condition."""

    async def rollout(self, row: dict[str, Any]) -> dict[str, Any]:
        state = await self.setup_state({"prompt": row["prompt"], "info": row["info"]})
        messages = list(row["prompt"])
        while not await self.has_ended(state):
            messages.append({"role": "assistant", "content": "", "tool_calls": [choose_call(state["lab"])]})
            messages += await self.env_response(messages, state)
        return {**state, "messages": messages}


def test_verifiers_adapter_plays_an_episode_and_collects_its_reward(monkeypatch):
    names = load_adapter(
        monkeypatch, "Verifiers", verifiers={"MultiTurnEnv": MultiTurnEnv, "stop": lambda method: method}
    )
    [row] = names["make_rows"]([FISH], range(7, 8))
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert {tool["type"] for tool in row["info"]["oai_tools"]} == {"function"}
    state = run_coroutine(names["LabEnv"]().rollout(row))
    assert run_coroutine(names["score_episode"](state)) == 1.0
    # Every call of the model is answered by a result with its id.
    calls = [message["tool_calls"][0]["id"] for message in state["messages"] if "tool_calls" in message]
    assert calls == [message["tool_call_id"] for message in state["messages"] if message["role"] == "tool"]


@dataclass
class Record:
    """A value with the fields that it was built with, as the models of aviary."""

    fields: dict[str, Any] = field(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        return self.fields[name]


def test_aviary_adapter_plays_an_episode(monkeypatch):
    kinds = ("Environment", "FunctionInfo", "Message", "Tool", "ToolRequestMessage", "ToolResponseMessage")
    members = {name: type(name, (Record,), {}) for name in kinds}
    names = load_adapter(monkeypatch, "Aviary", aviary__core=members)
    env = names["AviaryLab"](FISH, 7, reward="shaped")
    messages, tools = run_coroutine(env.reset())
    assert [message.role for message in messages] == ["system", "user"]
    assert {tool.info.name for tool in tools} == set(env.lab.catalogue.types)
    total, done = 0.0, False
    while not done:
        call = choose_call(env.lab)
        function = Record(name=call["function"]["name"], arguments=json.loads(call["function"]["arguments"]))
        request = members["ToolRequestMessage"](tool_calls=[Record(id=call["id"], function=function)])
        [answer], reward, done, truncated = run_coroutine(env.step(request))
        assert answer.tool_call_id == call["id"] and not truncated
        total += reward
    assert total == pytest.approx(1.0)


def test_inspect_adapter_offers_every_action_and_collects_rewards(monkeypatch):
    def build_tool(execute, **facts):
        return Record(execute=execute, **facts)

    names = load_adapter(monkeypatch, "Inspect", inspect_ai__tool={"ToolDef": build_tool, "ToolParams": Record})
    lab = gymnasium.make(gym.environment_id(FISH)).unwrapped
    lab.reset(seed=7)
    rewards: list[float] = []
    tools = {tool.name: tool for tool in names["make_tools"](lab, rewards)}
    assert set(tools) == set(lab.catalogue.types) and tools["Transfer"].parameters.properties["source"]
    while lab.bench.ending is None:
        function = choose_call(lab)["function"]
        result = run_coroutine(tools[function["name"]].execute(**json.loads(function["arguments"])))
        assert function["name"] in result
    assert sum(rewards) == 1.0
