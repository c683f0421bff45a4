"""Code casts: their data files, whether they can run, their frozen configuration, and the agents that are built from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from simulation.casts import RunConfig, cast_availability, code_cast_availability, load_files, prompt_store, run_config
from simulation.casts.casting import PromptTools
from simulation.casts.code_casting import build_coding_agent, build_helper
from simulation.casts.data_files import ModelFileError, load_model_files
from simulation.casts.model_obstacles import NotReadyError
from simulation.casts.run_config import RULE_BASED_CODE_CASTS, UnknownCastError, hash_config, list_models
from simulation.lab.errors import LabError
from simulation.llm.coding.agent import LLMCodingAgent
from simulation.llm.coding.pipeline import FixedCodingAgent
from simulation.llm.prompt_sets import load_built_in_code
from simulation.replication.agents import OFFLINE_AGENTS
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tools import TOOLS
from simulation.replication.values import CodeSituation, LimitsLeft, Task
from simulation.runs.create import freeze_run_config
from tests.support.scripted_models import ScriptedProvider
from tests.support.small_tasks import write_small_task

FILES = [settings.FIXTURES_DIR / f"{name}.json" for name in ("models", "casts")]
MODEL = {"name": "mine", "provider": "local", "model_id": "qwen3:8b"}
ROLE = {"model": "mine", "params": {"max_tokens": 1000}}
NOW = CodeSituation("brief", {}, "", (), LimitsLeft(50, 1800.0, None))
PARAMS = {"max_tokens": 1000, "temperature": None, "thinking_budget": None, "effort": ""}


def write_casts(folder: Path, *casts: dict[str, Any], **more: Any) -> Path:
    path = folder / "own.json"
    path.write_text(json.dumps({"models": [MODEL], "code_casts": list(casts), **more}))
    return path


def build_cast(**changes: Any) -> dict[str, Any]:
    return {"name": "my-code", "description": "Mine.", "agent": ROLE, **changes}


def load(folder: Path, *casts: dict[str, Any]) -> None:
    load_files.load_models(load_files.parse_model_files([write_casts(folder, *casts)]))


# Data files


def test_code_cast_is_stored_with_its_kind_and_every_default(tmp_path: Path) -> None:
    casts = [build_cast(), build_cast(name="b", helper=ROLE), build_cast(name="c", agent={**ROLE, "scaffold": "fixed"})]
    plain, helped, fixed = load_model_files([write_casts(tmp_path, *casts)], {}).code_casts
    agent = {"model": "mine", "params": PARAMS, "scaffold": "react", "history": {"kind": "full"}}
    without_helper = [name for name in TOOLS if name not in ("edit_file", "understand_file")]
    assert plain == {
        "kind": "code",
        "name": "my-code",
        "description": "Mine.",
        "agent": {**agent, "tools": without_helper},
        "helper": None,
    }
    assert helped["agent"]["tools"] == list(TOOLS) and helped["helper"] == {"model": "mine", "params": PARAMS}
    assert fixed["agent"]["tools"] == ["replace", "run_script", "submit", "quit"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"agent": {**ROLE, "scaffold": "free"}}, "agent.scaffold: is 'free'; allowed: plain, react, structured, plan, plan-status, fixed"),
        ({"agent": {**ROLE, "tools": ["submit", "quit", "shell"]}}, r"agent.tools\[2\]: is 'shell'; allowed: list_files"),
        ({"agent": {**ROLE, "tools": ["read_file"]}}, "agent.tools: .*must contain submit and quit"),
        ({"agent": {**ROLE, "tools": ["submit", "quit", "edit_file"]}}, "helper: is missing; the agent has the tools edit_file"),
        ({"agent": {**ROLE, "tools": ["submit", "quit"]}, "helper": ROLE}, "helper: answers no tool of the agent"),
        ({"agent": {**ROLE, "scaffold": "fixed"}, "helper": ROLE}, "agent.scaffold: fixed chooses no tools"),
        ({"agent": {**ROLE, "history": {"kind": "window"}}}, "agent.history.k"),
        ({"agent": {"plays": "offline-oracle"}}, "agent.model"),
        ({"helper": {**ROLE, "model": "other"}}, "helper.model: is 'other'; allowed: mine"),
        ({"name": "offline-mine"}, "name: is 'offline-mine'; allowed: a name that begins neither with human nor with offline"),
    ],
)  # fmt: skip
def test_wrong_code_cast_is_reported_by_field_with_the_allowed_values(
    tmp_path: Path, changes: Any, problem: str
) -> None:
    with pytest.raises(ModelFileError, match=rf"code_casts\[0\]\.{problem}"):
        load_model_files([write_casts(tmp_path, build_cast(**changes))], {})


def test_code_cast_and_laboratory_cast_cannot_have_the_same_name(tmp_path: Path) -> None:
    roles = dict.fromkeys(("agent", "transition_model", "evidence_classifier"), ROLE)
    cast = {"name": "my-code", "description": "Mine.", **roles}
    with pytest.raises(ModelFileError, match="code_casts: 'my-code' is also in"):
        load_model_files([write_casts(tmp_path, build_cast(), casts=[cast])], {})


def test_shipped_code_casts_have_those_of_the_paper_and_todays(tmp_path: Path) -> None:
    files = load_model_files(FILES, {})
    models = {entry["name"]: entry for entry in files.models}
    by_scaffold: dict[str, set[str]] = {}
    for cast in files.code_casts:
        by_scaffold.setdefault(cast["agent"]["scaffold"], set()).add(cast["agent"]["model"])
    paper = {"gpt-4o", "gpt-4o-mini", "claude-3-5-sonnet", "claude-3-7-sonnet"}
    assert paper < by_scaffold["react"] and {"o1", "o3-mini", "gpt-4o"} < by_scaffold["fixed"]
    assert any(models[name].get("lifecycle") == "active" for name in by_scaffold["react"])
    # Switched off: the SDKs state the days.
    assert [models[name]["retires_on"] for name in ("o1", "o3-mini", "claude-3-7-sonnet")] == [
        "2026-10-23",
        "2026-10-23",
        "2026-02-19",
    ]


# Availability


@pytest.mark.django_db
def test_code_casts_and_laboratory_casts_are_listed_apart(tmp_path: Path) -> None:
    load(tmp_path, build_cast(helper=ROLE))
    rules, model = code_cast_availability.list_code_casts({})[:5], code_cast_availability.list_code_casts({})[5]
    assert [option.name for option in rules] == list(RULE_BASED_CODE_CASTS) == list(OFFLINE_AGENTS)
    assert all(option.description.startswith("Rules: ") and not option.speaks and option.is_ready for option in rules)
    assert (model.name, model.agent, model.scaffold, model.helper, model.is_ready) == (
        "my-code",
        "mine",
        "react",
        "mine",
        True,
    )
    assert "my-code" not in cast_availability.list_names() and "my-code" in code_cast_availability.list_names()
    assert [option.name for option in cast_availability.list_raters({})] == ["mine"]
    with pytest.raises(UnknownCastError, match="There is no cast 'my-code'"):
        cast_availability.freeze_cast("my-code", {})
    with pytest.raises(
        UnknownCastError, match=r"There is no code cast 'offline'\. Code casts: offline-oracle, .*my-code"
    ):
        code_cast_availability.freeze_code_cast("offline", {})


@pytest.mark.django_db
def test_frozen_code_cast_has_its_models_and_the_prompt_set_of_its_family(tmp_path: Path) -> None:
    load(tmp_path, build_cast(helper=ROLE))
    setup = freeze_run_config(code_cast_availability.freeze_code_cast("my-code", {}))
    assert setup["prompt_set"] == {"name": "wetbench-code", "sha256": load_built_in_code().sha256}
    assert list(setup["models"]) == ["mine"] and len(hash_config(setup)) == 64
    assert [(role, player.model) for role, player in list_models(setup)] == [("code", "mine"), ("helper", "mine")]
    read = RunConfig.from_json(setup)
    assert (
        read.agent.tools == tuple(TOOLS)
        and read.helper
        and read.helper.params.max_tokens == 1000
        and read.classifiers == ()
    )
    with pytest.raises(prompt_store.NoSuchPromptSet, match="is for simulation; choose one for code"):
        freeze_run_config(code_cast_availability.freeze_code_cast("my-code", {}), "wetbench")
    assert code_cast_availability.freeze_code_cast("offline-oracle", {}) == {}


@pytest.mark.django_db
def test_code_cast_without_its_key_cannot_run(tmp_path: Path) -> None:
    load_files.load_models(load_files.parse_model_files(FILES))
    with pytest.raises(NotReadyError, match="OPENAI_API_KEY") as refused:
        code_cast_availability.freeze_code_cast("replication-gpt-4o", {})
    assert refused.value.missing_keys == ("OPENAI_API_KEY",)
    option = next(each for each in code_cast_availability.list_code_casts({}) if each.name == "replication-o1-fixed")
    assert not option.is_ready and "o1 was switched off on 2026-10-23" in option.warnings[0]


# Agents


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(write_small_task(tmp_path_factory.mktemp("tasks")))


def make_setup(**agent: Any) -> RunConfig:
    helper = {} if agent.get("scaffold") == "fixed" else {"helper": ROLE}
    cast = {"kind": "code", "agent": {**ROLE, "tools": ["submit", "quit"], **agent}, **helper}
    return RunConfig.from_json({"cast": cast, "models": {"mine": {**MODEL, "options": {}, "context_limit": 32_000}}})


def make_tools(*replies: str) -> tuple[PromptTools, ScriptedProvider]:
    speak = ScriptedProvider(replies)
    return PromptTools(lambda player: speak, load_built_in_code, {}), speak


@pytest.mark.parametrize("name", RULE_BASED_CODE_CASTS)
def test_rule_based_code_cast_builds_the_offline_agent_of_its_name(task: Task, name: str) -> None:
    setup, (tools, speak) = run_config.get_rule_based_cast(name).to_run_config(), make_tools()
    agent = build_coding_agent(setup, task, ("f1",), 7, tools, {"docs": "kept"})
    assert agent.choose_tool(NOW).tool in TOOLS and speak.prompts == []
    with pytest.raises(LabError, match="no helper"):
        build_helper(setup, tools)


def test_model_cast_builds_an_agent_with_its_scaffold_history_tools_and_limits(task: Task) -> None:
    tools, _ = make_tools("TOOL: quit\nreason: no", "an answer")
    setup = make_setup(scaffold="plan-status", history={"kind": "window", "k": 3})
    agent = build_coding_agent(setup, task, ("f1",), 7, tools, {"paper": "full", "code": "ast", "docs": "signature"})
    assert isinstance(agent, LLMCodingAgent) and agent.tools == ("submit", "quit")
    assert (agent.context_limit, agent.max_tokens, agent.history["k"]) == (32_000, 1000, 3)
    assert "def remove_offset" in agent.code and "readings without" not in agent.code  # the docstring is hidden too
    assert agent.choose_tool(NOW).tool == "quit" and build_helper(setup, tools).answer("a", "b", "c") == "an answer"


def test_pipeline_retrieves_unless_the_conditions_state_otherwise(task: Task) -> None:
    tools, _ = make_tools()
    agent = build_coding_agent(make_setup(scaffold="fixed"), task, ("f1",), 7, tools, {})
    assert isinstance(agent, FixedCodingAgent) and (agent.context.code, agent.context.paper) == ("lexical", "full")
    arms = {"code": "none", "paper": "oracle"}
    agent = build_coding_agent(make_setup(scaffold="fixed"), task, ("f1",), 7, tools, arms)
    assert isinstance(agent, FixedCodingAgent) and (agent.context.code, agent.context.paper) == ("none", "oracle")
