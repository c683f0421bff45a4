"""Model, price and cast files: the shipped ones, and errors with line and field."""

import importlib.util
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from simulation.casts import data_files, run_config
from simulation.casts.data_files import ModelFileError, ModelFiles
from simulation.models import REASONS
from simulation.providers.base import PROVIDERS, WireOptions

MODELS, CASTS = settings.FIXTURES_DIR / "models.json", settings.FIXTURES_DIR / "casts.json"
DAY = "2026-11-21"
PRICE = {"effective_from": DAY, "input": "1.25", "output": "10", "source": "a page", "read_on": DAY}
MODEL = {"name": "mine", "provider": "local", "model_id": "qwen3:8b", "prices": [PRICE]}
SPEAKS = {"model": "mine", "params": {"max_tokens": 4096}}
CAST = {
    "name": "my-cast",
    "description": "Mine.",
    "agent": SPEAKS,
    "transition_model": {"plays": "offline/rules"},
    "evidence_classifier": {"plays": "offline/checklist"},
}


@pytest.fixture(scope="module")
def shipped_files() -> ModelFiles:
    return data_files.load_model_files([MODELS, CASTS], {})


def write_file(folder: Path, data: Any, name: str = "own.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def get_read_error(folder: Path, data: Any) -> str:
    with pytest.raises(ModelFileError) as refused:
        data_files.load_model_files([write_file(folder, data)], {})
    return str(refused.value)


def model_data(**changes: Any) -> dict[str, Any]:
    return {"models": [{**MODEL, **changes}]}


def price_data(**changes: Any) -> dict[str, Any]:
    return model_data(prices=[{**PRICE, **changes}])


def cast_data(**changes: Any) -> dict[str, Any]:
    return {**model_data(options={"output_limit": 8192}), "casts": [{**CAST, **changes}]}


def agent_data(**changes: Any) -> dict[str, Any]:
    return cast_data(agent={**SPEAKS, **changes})


def params_data(**changes: Any) -> dict[str, Any]:
    return agent_data(params={"max_tokens": 4096, **changes})


def read_sdk_file(package: str, path: str) -> str:
    """Return a file of an installed SDK without importing the SDK, which would take seconds."""
    found = importlib.util.find_spec(package)
    assert found and found.origin
    return (Path(found.origin).parent / path).read_text(encoding="utf-8")


# (cast, role): id on the wire, max_tokens, temperature, thinking_budget; the paper's Appendix A.1.1 to A.1.8
APPENDIX = {
    ("paper", "agent"): ("gpt-5", 16000, "0.7", None),
    ("paper-claude-4-sonnet", "agent"): ("claude-sonnet-4-20250514", 4096, "0.7", 2048),
    ("paper-gpt-4o", "agent"): ("gpt-4o", 4096, "0.7", None),
    ("paper-gemini-2.5-flash", "agent"): ("gemini-2.5-flash", 16000, "0.7", None),
    ("paper-qwen3-235b-thinking", "agent"): ("qwen/qwen3-235b-a22b-thinking-2507", 16000, "0.7", None),
    ("paper-deepseek-r1", "agent"): ("deepseek/deepseek-r1-0528", 16000, "0.7", None),
    ("paper", "transition_model"): ("claude-sonnet-4-20250514", 16384, "0.7", 4096),
    ("paper", "evidence_classifier"): ("gpt-5", 16000, "0.7", None),
}


@pytest.mark.parametrize(("cast_role", "config"), APPENDIX.items())
def test_shipped_casts_include_the_eight_configurations_of_the_paper(
    shipped_files: ModelFiles, cast_role: tuple[str, str], config: tuple[Any, ...]
) -> None:
    casts = {entry["name"]: entry for entry in shipped_files.casts}
    ids = {entry["name"]: entry["model_id"] for entry in shipped_files.models}
    player = casts[cast_role[0]][cast_role[1]]
    told = player["params"]
    assert (ids[player["model"]], told["max_tokens"], told["temperature"], told["thinking_budget"]) == config


def test_casts_of_the_paper_share_the_transition_model_the_classifier_and_the_panel(shipped_files: ModelFiles) -> None:
    papers = [
        entry
        for entry in shipped_files.casts
        if entry["name"].startswith("paper") and entry["name"] != "paper-gpt-5-simulator"
    ]
    rest = [{role: entry[role] for role in ("transition_model", "evidence_classifier", "panel")} for entry in papers]
    assert len(papers) == 6 and rest == rest[:1] * 6
    panel = [player["model"] for player in papers[0]["panel"]]
    assert panel == ["claude-sonnet-4", "gpt-4o", "gemini-2.5-flash", "qwen3-235b-thinking", "deepseek-r1"]


def test_paper_casts_use_the_plain_scaffold_and_gpt_5_has_a_simulator_cast(shipped_files: ModelFiles) -> None:
    casts = {entry["name"]: entry for entry in shipped_files.casts}
    assert {entry["agent"]["scaffold"] for name, entry in casts.items() if name.startswith("paper")} == {"plain"}
    # The transition model of a cast writes its twins (casting.perturber).
    assert casts["paper-gpt-5-simulator"]["transition_model"]["model"] == "gpt-5"
    assert casts["current-gpt-6.1-sol-simulator"]["transition_model"]["model"] == "gpt-6.1-sol"


def test_current_casts_use_the_plain_scaffold_and_name_the_predecessor_of_each_model(
    shipped_files: ModelFiles,
) -> None:
    known = {entry["name"] for entry in shipped_files.models}
    today = [made for made in shipped_files.casts if made["name"].startswith("current")]
    assert len(today) == 9 and {made["agent"]["scaffold"] for made in today} == {"plain"}
    for made in today:
        speakers = {player["model"] for player in run_config.list_roles(made) if "model" in player}
        assert set(made["successor_of"]) == speakers and set(made["successor_of"].values()) <= known


def test_paper_models_have_their_lifecycle_and_retirement_date(shipped_files: ModelFiles) -> None:
    models = {entry["name"]: entry for entry in shipped_files.models}
    lives = {name: (entry["lifecycle"], entry["retires_on"]) for name, entry in models.items()}
    assert lives["claude-sonnet-4"] == ("retired", "2026-06-15")
    assert lives["gpt-5"] == ("retiring", "2026-12-11") and lives["gpt-4o"] == ("retiring", "2027-01-14")
    assert lives["gemini-2.5-flash"] == ("retiring", "2026-12-01")
    assert "claude-4-sonnet-20250514" in models["claude-sonnet-4"]["aliases"]


def test_every_price_and_lifecycle_has_a_source_and_a_date(shipped_files: ModelFiles) -> None:
    prices = [price for entry in shipped_files.models for price in entry["prices"]]
    assert prices and all(price["source"] and price["read_on"] for price in prices)
    told = [entry for entry in shipped_files.models if entry["lifecycle"] != "unknown"]
    assert told and all(entry["lifecycle_source"] and entry["lifecycle_read_on"] for entry in told)


def test_retirement_dates_match_the_installed_sdks(shipped_files: ModelFiles) -> None:
    """A newer SDK with other dates makes this test fail: fixtures/models.json must then be updated."""
    assert '"claude-sonnet-4-20250514": "June 15th, 2026"' in read_sdk_file(
        "anthropic", "resources/messages/messages.py"
    )
    source = " ".join(read_sdk_file("openai", "types/shared/chat_model.py").split())
    for name, day in (('"gpt-5"', "2026-12-11"), ('"gpt-4o"', "2027-01-14")):
        told = next(part for part in source.split('- "') if name in f'"{part}' and "shutdown" in part)
        assert f"Announced shutdown date: {day}" in told


def test_shipped_roles_stay_within_the_output_limit_of_their_model(shipped_files: ModelFiles) -> None:
    limits = {entry["name"]: entry["options"]["output_limit"] for entry in shipped_files.models}
    speakers = [p for entry in shipped_files.casts for p in run_config.list_roles(entry) if "model" in p]
    assert len(speakers) > 50 and all(p["params"]["max_tokens"] <= limits[p["model"]] for p in speakers)


def test_loaded_cast_has_every_default_filled_in(tmp_path: Path) -> None:
    read = data_files.load_model_files([write_file(tmp_path, cast_data())], {})
    assert read.casts[0]["agent"] == {
        "model": "mine",
        "params": {"max_tokens": 4096, "temperature": None, "thinking_budget": None, "effort": ""},
        "scaffold": "react",
        "history": {"kind": "full"},
    }
    assert read.casts[0]["panel"] == []


def test_cast_may_use_a_model_of_another_file_or_an_already_loaded_one(tmp_path: Path) -> None:
    casts = write_file(tmp_path, {"casts": [CAST]}, "casts.json")
    assert data_files.load_model_files([casts, write_file(tmp_path, model_data())], {}).casts[0]["name"] == "my-cast"
    assert data_files.load_model_files([casts], {"mine": {"options": {}}}).casts[0]["name"] == "my-cast"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (model_data(provider="anthropic"), "models[0].options.api_version: is missing; allowed: a day like 2023-06-01"),
        (
            model_data(provider="anthropic", options={"api_version": ""}),
            "models[0].options.api_version: is ''; allowed",
        ),
        (
            model_data(provider="mistral"),
            "models[0].provider: is 'mistral'; allowed: anthropic, openai, gemini, openrouter",
        ),
        (model_data(provider=["openai"]), "models[0].provider: is ['openai']"),
        (model_data(name="My Model"), "models[0].name: is 'My Model'; allowed: a to z, 0 to 9"),
        (model_data(name=["mine"]), "models[0].name: is ['mine']; allowed: a to z, 0 to 9"),
        (model_data(model_id=""), "models[0].model_id: is ''; allowed: text of at most 120 characters, not empty"),
        (model_data(key="sk-1"), "models[0].key: unknown field"),
        (model_data(aliases="a"), "models[0].aliases: is 'a'; allowed: a list of texts"),
        (model_data(context_limit=0), "models[0].context_limit: is 0; allowed: a whole number from 1"),
        (model_data(context_limit=True), "models[0].context_limit: is True"),
        (model_data(options={"temprature": True}), "models[0].options.temprature: unknown field; allowed: api_version"),
        (
            model_data(options={"thinking": "deep"}),
            "options.thinking: is 'deep'; allowed: none, budget, adaptive, effort",
        ),
        (model_data(options={"json_mode": "yes"}), "options.json_mode: is 'yes'; allowed: true or false"),
        (model_data(options={"effort_levels": [1]}), "options.effort_levels[0]: is 1; allowed: text of at most 120"),
        (model_data(options={"extra_body": []}), "options.extra_body: is []; allowed: an object"),
        (
            model_data(options={"extra_body": {"model": "x"}}),
            "options.extra_body: must not contain model: a cast sets these",
        ),
        (model_data(options=[]), "models[0].options: is []; allowed: an object"),
        (model_data(lifecycle="old"), "models[0].lifecycle: is 'old'; allowed: active, retiring, retired, unknown"),
        (
            model_data(lifecycle="active"),
            "models[0].lifecycle_source: is missing; allowed: text of at most 300 characters",
        ),
        (
            model_data(lifecycle="retiring", lifecycle_source="x", lifecycle_read_on=DAY),
            "models[0].retires_on: is missing; allowed: a day like 2026-11-21",
        ),
        (
            price_data(input=1.25),
            'prices[0].input: is 1.25; allowed: dollars per million tokens in quotes, like "1.25"',
        ),
        (price_data(input="-1"), "prices[0].input: is '-1'"),
        (price_data(input="NaN"), "prices[0].input: is 'NaN'"),
        (price_data(input="1e3"), "prices[0].input: is '1e3'"),
        (price_data(input="0.0000001"), "prices[0].input: is '0.0000001'"),
        (price_data(output="about 10"), "prices[0].output: is 'about 10'"),
        (price_data(source=""), "prices[0].source: is ''"),
        (price_data(read_on=None), "prices[0].read_on: is None; allowed: a day like 2026-11-21"),
        (price_data(effective_from="21.11.2026"), "prices[0].effective_from: is '21.11.2026'"),
        (price_data(input=None, output=None), "prices[0].input: no price is given"),
        (model_data(prices=[PRICE, PRICE]), f"prices: the effective_from '{DAY}' occurs twice"),
        ({"models": [MODEL, MODEL]}, "models: the name 'mine' occurs twice"),
        ({"prices": [{**PRICE, "model": "gpt-9"}]}, "prices[0].model: is 'gpt-9'; allowed: no model is known"),
        ({"model": []}, "model: unknown field; allowed: casts, code_casts, models, prices"),
        ({"models": {}}, "models: is {}; allowed: a list"),
        (["models"], "must contain one object with models, prices, casts"),
    ],
)
def test_wrong_model_or_price_is_reported_by_field_with_the_allowed_values(
    tmp_path: Path, data: Any, said: str
) -> None:
    assert said in get_read_error(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            cast_data(name="human"),
            "casts[0].name: is 'human'; allowed: a name that begins neither with human nor with offline",
        ),
        (cast_data(name="offline"), "casts[0].name: is 'offline'"),
        (cast_data(description=" "), "casts[0].description: is ' '"),
        (cast_data(agent=None), 'casts[0].agent: is None; allowed: an object with either "plays" or "model"'),
        (cast_data(successor_of=["mine"]), "casts[0].successor_of: is ['mine']; allowed: an object like"),
        (cast_data(successor_of={"gpt-9": "mine"}), "casts[0].successor_of.gpt-9: no role of the cast uses this model"),
        (
            cast_data(agent=SPEAKS, successor_of={"mine": "gpt-4"}),
            "casts[0].successor_of.mine: is 'gpt-4'; allowed: the name",
        ),
        (cast_data(agent={**SPEAKS, "plays": "offline/random"}), "casts[0].agent: is {"),
        (cast_data(agent={"plays": "person"}), "casts[0].agent.plays: is 'person'; allowed: offline/protocol"),
        (cast_data(transition_model={"plays": "offline/random"}), "transition_model.plays: is 'offline/random'"),
        (agent_data(model="gpt-9"), "casts[0].agent.model: is 'gpt-9'; allowed: mine"),
        (agent_data(scaffold="tree"), "casts[0].agent.scaffold: is 'tree'; allowed: plain, react, plan"),
        (
            agent_data(history={"kind": "window"}),
            "casts[0].agent.history.k: is missing; allowed: a whole number from 1 to 1000",
        ),
        (agent_data(history="full"), "casts[0].agent.history: is 'full'"),
        (agent_data(params=None), "casts[0].agent.params: is None; allowed: an object with max_tokens"),
        (params_data(max_tokens=8193), "params.max_tokens: is 8193; allowed: a whole number from 1 to 8192"),
        (
            params_data(thinking_budget=4096),
            "params.thinking_budget: is 4096; allowed: a whole number from 1024 to 4095",
        ),
        (
            params_data(temperature=0.7),
            'params.temperature: is 0.7; allowed: a number from 0 to 2 in quotes, like "0.7"',
        ),
        (params_data(temperature="Infinity"), "params.temperature: is 'Infinity'"),
        (params_data(effort="huge"), "params.effort: is 'huge'; allowed: empty, none, minimal, low"),
        (params_data(seed=1), "params.seed: unknown field"),
        (cast_data(transition_model={**SPEAKS, "scaffold": "react"}), "transition_model.scaffold: unknown field"),
        (cast_data(panel=SPEAKS), "casts[0].panel: is {"),
        (cast_data(panel=[{"plays": "offline/checklist"}]), "casts[0].panel: 'offline/checklist' judges twice"),
        (cast_data(panel=[SPEAKS, SPEAKS]), "casts[0].panel: 'mine' judges twice"),
    ],
)
def test_wrong_cast_is_reported_by_role_and_field_with_the_allowed_values(tmp_path: Path, data: Any, said: str) -> None:
    assert said in get_read_error(tmp_path, data)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "own.json:1: not JSON"),
        ('{"models": [],\n"models": []}', "own.json:2: not JSON: the field 'models' occurs twice"),
        ('{"models": [{"context_limit": NaN}]}', "NaN is not a number"),
        ('{"models": [{"options": {"extra_body": {"x": 1e999}}}]}', "not JSON"),
        ('{"models": [{"note": "\\u0000"}]}', "contains the character NUL"),
        ('{"models": [{"note": "\\ud800"}]}', "not JSON"),
        ('{"models": ' + "[" * 100_000, "not JSON"),
        ('{"models": [{"context_limit": ' + "9" * 5000 + "}]}", "not JSON"),
    ],
)
def test_invalid_json_is_reported_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in get_read_error(tmp_path, text)


def test_problems_of_all_model_files_are_reported_together_with_lines(tmp_path: Path) -> None:
    first = write_file(tmp_path, json.dumps(model_data(provider="x"), indent=1), "first.json")
    second = write_file(tmp_path, {"casts": [{**CAST, "description": ""}], **model_data()}, "second.json")
    with pytest.raises(ModelFileError) as refused:
        data_files.load_model_files([first, second, tmp_path / "third.json"], {})
    said = str(refused.value)
    # line 1 "{", 2 "models", 3 "{" of the entry, 4 its name, 5 its provider
    assert "first.json:5: models[0].provider" in said and "second.json:1: casts[0].description" in said
    assert "third.json: cannot be read" in said and "models: 'mine' is also in" in said


def test_documentation_examples_load_and_every_reason_option_and_variable_is_explained(
    tmp_path: Path, shipped_files: ModelFiles
) -> None:
    guide = (settings.BASE_DIR / "docs/models.md").read_text(encoding="utf-8")
    examples = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    paths = [write_file(tmp_path, text, f"{number}.json") for number, text in enumerate(examples)]
    read = data_files.load_model_files(paths, {entry["name"]: entry for entry in shipped_files.models})
    assert (len(read.models), len(read.prices), len(read.casts)) == (1, 1, 1)
    wanted = [reason for reason, _ in REASONS] + [field.name for field in fields(WireOptions)]
    wanted += [name for info in PROVIDERS.values() for name in (info.key_variable, info.base_url_variable)]
    assert [word for word in wanted if f"`{word}`" not in guide] == []
    assert [
        entry["name"]
        for entry in shipped_files.casts
        if entry["name"].startswith("paper") and f"`{entry['name']}`" not in guide
    ] == []
