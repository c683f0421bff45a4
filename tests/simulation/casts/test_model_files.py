"""Data files of models, prices and casts: what the laboratory ships, and every mistake named by line and field."""

import importlib.util
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from simulation.casts import cast_files, model_files
from simulation.casts.model_files import ModelFileError, ModelFiles
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
def shipped() -> ModelFiles:
    return model_files.read([MODELS, CASTS], {})


def written(folder: Path, data: Any, name: str = "own.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def complaint(folder: Path, data: Any) -> str:
    with pytest.raises(ModelFileError) as refused:
        model_files.read([written(folder, data)], {})
    return str(refused.value)


def model(**changes: Any) -> dict[str, Any]:
    return {"models": [{**MODEL, **changes}]}


def price(**changes: Any) -> dict[str, Any]:
    return model(prices=[{**PRICE, **changes}])


def cast(**changes: Any) -> dict[str, Any]:
    return {**model(options={"output_limit": 8192}), "casts": [{**CAST, **changes}]}


def agent(**changes: Any) -> dict[str, Any]:
    return cast(agent={**SPEAKS, **changes})


def params(**changes: Any) -> dict[str, Any]:
    return agent(params={"max_tokens": 4096, **changes})


def sdk_text(package: str, path: str) -> str:
    """A file of an installed SDK, read without importing it: that alone would take seconds."""
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


@pytest.mark.parametrize(("place", "config"), APPENDIX.items())
def test_the_papers_eight_configurations_are_there(
    shipped: ModelFiles, place: tuple[str, str], config: tuple[Any, ...]
) -> None:
    casts = {entry["name"]: entry for entry in shipped.casts}
    ids = {entry["name"]: entry["model_id"] for entry in shipped.models}
    player = casts[place[0]][place[1]]
    told = player["params"]
    assert (ids[player["model"]], told["max_tokens"], told["temperature"], told["thinking_budget"]) == config


def test_all_the_papers_casts_share_its_transition_model_classifier_and_panel(shipped: ModelFiles) -> None:
    papers = [
        entry
        for entry in shipped.casts
        if entry["name"].startswith("paper") and entry["name"] != "paper-gpt-5-simulator"
    ]
    rest = [{role: entry[role] for role in ("transition_model", "evidence_classifier", "panel")} for entry in papers]
    assert len(papers) == 6 and rest == rest[:1] * 6
    panel = [player["model"] for player in papers[0]["panel"]]
    assert panel == ["claude-sonnet-4", "gpt-4o", "gemini-2.5-flash", "qwen3-235b-thinking", "deepseek-r1"]


def test_the_papers_agents_are_asked_plainly_and_gpt_5_simulates_and_writes_twins_too(shipped: ModelFiles) -> None:
    casts = {entry["name"]: entry for entry in shipped.casts}
    assert {entry["agent"]["scaffold"] for name, entry in casts.items() if name.startswith("paper")} == {"plain"}
    # The transition model of a cast writes its twins (casting.perturber).
    assert casts["paper-gpt-5-simulator"]["transition_model"]["model"] == "gpt-5"
    assert casts["current-gpt-6.1-sol-simulator"]["transition_model"]["model"] == "gpt-6.1-sol"


def test_todays_casts_are_asked_as_the_papers_are_and_each_model_says_whose_successor_it_is(
    shipped: ModelFiles,
) -> None:
    known = {entry["name"] for entry in shipped.models}
    today = [made for made in shipped.casts if made["name"].startswith("current")]
    assert len(today) == 9 and {made["agent"]["scaffold"] for made in today} == {"plain"}
    for made in today:
        speakers = {player["model"] for player in cast_files.players(made) if "model" in player}
        assert set(made["successor_of"]) == speakers and set(made["successor_of"].values()) <= known


def test_what_has_become_of_the_papers_models_is_said_with_source_and_day(shipped: ModelFiles) -> None:
    models = {entry["name"]: entry for entry in shipped.models}
    lives = {name: (entry["lifecycle"], entry["retires_on"]) for name, entry in models.items()}
    assert lives["claude-sonnet-4"] == ("retired", "2026-06-15")
    assert lives["gpt-5"] == ("retiring", "2026-12-11") and lives["gpt-4o"] == ("retiring", "2027-01-14")
    assert lives["gemini-2.5-flash"] == ("retiring", "2026-12-01")
    assert "claude-4-sonnet-20250514" in models["claude-sonnet-4"]["aliases"]


def test_every_price_and_every_life_that_is_known_names_its_source_and_the_day_it_was_read(shipped: ModelFiles) -> None:
    prices = [price for entry in shipped.models for price in entry["prices"]]
    assert prices and all(price["source"] and price["read_on"] for price in prices)
    told = [entry for entry in shipped.models if entry["lifecycle"] != "unknown"]
    assert told and all(entry["lifecycle_source"] and entry["lifecycle_read_on"] for entry in told)


def test_what_the_sdks_say_of_the_papers_models_is_what_the_file_says(shipped: ModelFiles) -> None:
    """A newer SDK that says otherwise makes this fail: then the file is out of date."""
    assert '"claude-sonnet-4-20250514": "June 15th, 2026"' in sdk_text("anthropic", "resources/messages/messages.py")
    source = " ".join(sdk_text("openai", "types/shared/chat_model.py").split())
    for name, day in (('"gpt-5"', "2026-12-11"), ('"gpt-4o"', "2027-01-14")):
        told = next(part for part in source.split('- "') if name in f'"{part}' and "shutdown" in part)
        assert f"Announced shutdown date: {day}" in told


def test_every_shipped_player_stays_within_what_its_model_writes(shipped: ModelFiles) -> None:
    limits = {entry["name"]: entry["options"]["output_limit"] for entry in shipped.models}
    speakers = [p for entry in shipped.casts for p in cast_files.players(entry) if "model" in p]
    assert len(speakers) > 50 and all(p["params"]["max_tokens"] <= limits[p["model"]] for p in speakers)


def test_a_cast_is_written_out_in_full(tmp_path: Path) -> None:
    read = model_files.read([written(tmp_path, cast())], {})
    assert read.casts[0]["agent"] == {
        "model": "mine",
        "params": {"max_tokens": 4096, "temperature": None, "thinking_budget": None, "effort": ""},
        "scaffold": "react",
        "history": {"kind": "full"},
    }
    assert read.casts[0]["panel"] == []


def test_a_cast_may_name_a_model_of_another_file_or_one_that_is_loaded_already(tmp_path: Path) -> None:
    casts = written(tmp_path, {"casts": [CAST]}, "casts.json")
    assert model_files.read([casts, written(tmp_path, model())], {}).casts[0]["name"] == "my-cast"
    assert model_files.read([casts], {"mine": {"options": {}}}).casts[0]["name"] == "my-cast"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (model(provider="anthropic"), "models[0].options.api_version: is None; allowed: a day like 2023-06-01"),
        (model(provider="anthropic", options={"api_version": ""}), "models[0].options.api_version: is ''; allowed"),
        (model(provider="mistral"), "models[0].provider: is 'mistral'; allowed: anthropic, openai, gemini, openrouter"),
        (model(provider=["openai"]), "models[0].provider: is ['openai']"),
        (model(name="My Model"), "models[0].name: is 'My Model'; allowed: a to z, 0 to 9"),
        (model(model_id=""), "models[0].model_id: is ''; allowed: text of at most 120 characters, not empty"),
        (model(key="sk-1"), "models[0].key: unknown field"),
        (model(aliases="a"), "models[0].aliases: is 'a'; allowed: a list of texts"),
        (model(context_limit=0), "models[0].context_limit: is 0; allowed: a whole number from 1"),
        (model(context_limit=True), "models[0].context_limit: is True"),
        (model(options={"temprature": True}), "models[0].options.temprature: unknown field; allowed: api_version"),
        (model(options={"thinking": "deep"}), "options.thinking: is 'deep'; allowed: none, budget, adaptive, effort"),
        (model(options={"json_mode": "yes"}), "options.json_mode: is 'yes'; allowed: true or false"),
        (model(options={"effort_levels": [1]}), "options.effort_levels: is [1]; allowed: a list of texts"),
        (model(options={"extra_body": []}), "options.extra_body: is []; allowed: an object"),
        (model(options={"extra_body": {"model": "x"}}), "options.extra_body: must not hold model: a cast sets these"),
        (model(options=[]), "models[0].options: is []; allowed: an object"),
        (model(lifecycle="old"), "models[0].lifecycle: is 'old'; allowed: active, retiring, retired, unknown"),
        (model(lifecycle="active"), "models[0].lifecycle_source: is None; allowed: text of at most 300 characters"),
        (model(lifecycle="retiring", lifecycle_source="x", lifecycle_read_on=DAY), "models[0].retires_on: is None"),
        (price(input=1.25), 'prices[0].input: is 1.25; allowed: dollars per million tokens in quotes, like "1.25"'),
        (price(input="-1"), "prices[0].input: is '-1'"),
        (price(input="NaN"), "prices[0].input: is 'NaN'"),
        (price(input="1e3"), "prices[0].input: is '1e3'"),
        (price(input="0.0000001"), "prices[0].input: is '0.0000001'"),
        (price(output="about 10"), "prices[0].output: is 'about 10'"),
        (price(source=""), "prices[0].source: is ''"),
        (price(read_on=None), "prices[0].read_on: is None; allowed: a day like 2026-11-21"),
        (price(effective_from="21.11.2026"), "prices[0].effective_from: is '21.11.2026'"),
        (price(input=None, output=None), "prices[0].input: no price at all is given"),
        (model(prices=[PRICE, PRICE]), f"prices: the effective_from '{DAY}' occurs twice"),
        ({"models": [MODEL, MODEL]}, "models: the name 'mine' occurs twice"),
        ({"prices": [{**PRICE, "model": "gpt-9"}]}, "prices[0].model: is 'gpt-9'; allowed: no model is known"),
        ({"model": []}, "model: unknown field; allowed: casts, models, prices"),
        ({"models": {}}, "models: is {}; allowed: a list"),
        (["models"], "must hold one object with models, prices, casts"),
    ],
)
def test_a_wrong_model_or_price_is_named_by_field_with_what_is_allowed(tmp_path: Path, data: Any, said: str) -> None:
    assert said in complaint(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            cast(name="human"),
            "casts[0].name: is 'human'; allowed: a name that is neither human nor begins with offline",
        ),
        (cast(name="offline"), "casts[0].name: is 'offline'"),
        (cast(description=" "), "casts[0].description: is ' '"),
        (cast(agent=None), 'casts[0].agent: is None; allowed: an object with either "plays" or "model"'),
        (cast(successor_of=["mine"]), "casts[0].successor_of: is ['mine']; allowed: an object like"),
        (cast(successor_of={"gpt-9": "mine"}), "casts[0].successor_of.gpt-9: no player of the cast is this model"),
        (
            cast(agent=SPEAKS, successor_of={"mine": "gpt-4"}),
            "casts[0].successor_of.mine: is 'gpt-4'; allowed: the name",
        ),
        (cast(agent={**SPEAKS, "plays": "offline/random"}), "casts[0].agent: is {"),
        (cast(agent={"plays": "person"}), "casts[0].agent.plays: is 'person'; allowed: offline/protocol"),
        (cast(transition_model={"plays": "offline/random"}), "transition_model.plays: is 'offline/random'"),
        (agent(model="gpt-9"), "casts[0].agent.model: is 'gpt-9'; allowed: mine"),
        (agent(scaffold="tree"), "casts[0].agent.scaffold: is 'tree'; allowed: plain, react, plan"),
        (
            agent(history={"kind": "window"}),
            "casts[0].agent.history.k: is None; allowed: a whole number from 1 to 1000",
        ),
        (agent(history="full"), "casts[0].agent.history: is 'full'"),
        (agent(params=None), "casts[0].agent.params: is None; allowed: an object with max_tokens"),
        (params(max_tokens=8193), "params.max_tokens: is 8193; allowed: a whole number from 1 to 8192"),
        (params(thinking_budget=4096), "params.thinking_budget: is 4096; allowed: a whole number from 1024 to 4095"),
        (params(temperature=0.7), 'params.temperature: is 0.7; allowed: a number from 0 to 2 in quotes, like "0.7"'),
        (params(temperature="Infinity"), "params.temperature: is 'Infinity'"),
        (params(effort="huge"), "params.effort: is 'huge'; allowed: empty, none, minimal, low"),
        (params(seed=1), "params.seed: unknown field"),
        (cast(transition_model={**SPEAKS, "scaffold": "react"}), "transition_model.scaffold: unknown field"),
        (cast(panel=SPEAKS), "casts[0].panel: is {"),
        (cast(panel=[{"plays": "offline/checklist"}]), "casts[0].panel: 'offline/checklist' judges twice"),
        (cast(panel=[SPEAKS, SPEAKS]), "casts[0].panel: 'mine' judges twice"),
    ],
)
def test_a_wrong_cast_is_named_by_role_and_field_with_what_is_allowed(tmp_path: Path, data: Any, said: str) -> None:
    assert said in complaint(tmp_path, data)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "own.json:1: not JSON"),
        ('{"models": [],\n"models": []}', "own.json:2: not JSON: the field 'models' occurs twice"),
        ('{"models": [{"context_limit": NaN}]}', "NaN is not a number"),
        ('{"models": [{"options": {"extra_body": {"x": 1e999}}}]}', "not JSON"),
        ('{"models": [{"note": "\\u0000"}]}', "holds the character NUL"),
        ('{"models": [{"note": "\\ud800"}]}', "not JSON"),
        ('{"models": ' + "[" * 100_000, "not JSON"),
        ('{"models": [{"context_limit": ' + "9" * 5000 + "}]}", "not JSON"),
    ],
)
def test_a_file_that_is_no_sound_json_says_so_and_where(tmp_path: Path, text: str, said: str) -> None:
    assert said in complaint(tmp_path, text)


def test_all_problems_of_all_files_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    first = written(tmp_path, json.dumps(model(provider="x"), indent=1), "first.json")
    second = written(tmp_path, {"casts": [{**CAST, "description": ""}], **model()}, "second.json")
    with pytest.raises(ModelFileError) as refused:
        model_files.read([first, second, tmp_path / "third.json"], {})
    said = str(refused.value)
    # line 1 "{", 2 "models", 3 "{" of the entry, 4 its name, 5 its provider
    assert "first.json:5: models[0].provider" in said and "second.json:1: casts[0].description" in said
    assert "third.json: cannot be read" in said and "models: 'mine' stands in" in said


def test_the_examples_of_the_guide_load_and_it_explains_every_reason_option_and_variable(
    tmp_path: Path, shipped: ModelFiles
) -> None:
    guide = (settings.BASE_DIR / "docs/models.md").read_text(encoding="utf-8")
    examples = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    paths = [written(tmp_path, text, f"{number}.json") for number, text in enumerate(examples)]
    read = model_files.read(paths, {entry["name"]: entry for entry in shipped.models})
    assert (len(read.models), len(read.prices), len(read.casts)) == (1, 1, 1)
    wanted = [reason for reason, _ in REASONS] + [field.name for field in fields(WireOptions)]
    wanted += [name for info in PROVIDERS.values() for name in (info.key_variable, info.base_url_variable)]
    assert [word for word in wanted if f"`{word}`" not in guide] == []
    assert [
        entry["name"]
        for entry in shipped.casts
        if entry["name"].startswith("paper") and f"`{entry['name']}`" not in guide
    ] == []
