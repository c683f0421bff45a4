"""Availability of casts, and the configuration that a run is frozen with."""

import json
from datetime import date
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command

from simulation.casts import RunConfig, cast_availability, load_files, model_obstacles, run_config
from simulation.models import CastDefinition, LanguageModel, ModelPrice

pytestmark = pytest.mark.django_db

KEYS = {
    "ANTHROPIC_API_KEY": "k-a",
    "OPENAI_API_KEY": "k-o",
    "GEMINI_API_KEY": "k-g",
    "OPENROUTER_API_KEY": "k-r",
}
FILES = [django_settings.FIXTURES_DIR / f"{name}.json" for name in ("models", "casts")]
PRICE = {
    "model": "gpt-5",
    "effective_from": "2027-02-01",
    "input": "1.00",
    "source": "a letter",
    "read_on": "2027-01-30",
}


@pytest.fixture
def shipped_models() -> None:
    load_files.load_models(load_files.parse_model_files(FILES))


def find_cast_line(name: str, environ: dict[str, str] | None = None) -> cast_availability.CastOption:
    return next(
        line for line in cast_availability.list_casts(KEYS if environ is None else environ) if line.name == name
    )


def write_models_file(folder: Path, data: Any) -> Path:
    path = folder / "own.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def write_cast_file(folder: Path, provider: str = "local", **changes: Any) -> Path:
    speaks = {"model": "mine", "params": {"max_tokens": 1000}}
    roles = dict.fromkeys(("agent", "transition_model", "evidence_classifier"), speaks)
    cast = {"name": "my-cast", "description": "Mine.", **roles}
    model = {"name": "mine", "provider": provider, "model_id": "qwen3:8b", **changes}
    return write_models_file(folder, {"models": [model], "casts": [cast]})


@pytest.mark.usefixtures("shipped_models")
def test_reloading_models_changes_nothing_and_a_changed_price_is_counted(tmp_path: Path) -> None:
    again = load_files.load_models(load_files.parse_model_files(FILES))
    assert again == {"models": (0, 0, 17), "prices": (0, 0, 16), "casts": (0, 0, 16), "code_casts": (0, 0, 17)}
    files = load_files.parse_model_files(FILES)
    files.models[0]["prices"][0]["input"] = "1.30"
    assert load_files.load_models(files)["prices"] == (0, 1, 15)


@pytest.mark.usefixtures("shipped_models")
def test_own_casts_and_prices_are_kept_when_the_shipped_files_are_reloaded(tmp_path: Path) -> None:
    call_command("load_models", write_cast_file(tmp_path), stdout=StringIO())
    call_command("load_models", write_models_file(tmp_path, {"prices": [PRICE]}), stdout=StringIO())
    load_files.load_lab(django_settings.FIXTURES_DIR)
    assert CastDefinition.objects.filter(name="my-cast").exists()
    prices = ModelPrice.objects.filter(model__name="gpt-5")
    assert [price.effective_from.isoformat() for price in prices] == ["2027-02-01", "2026-11-21"]
    assert prices[0].input == Decimal("1.00") and prices[0].output is None


def test_wrong_model_file_loads_nothing_and_reports_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("load_models", write_cast_file(tmp_path, provider="mistral"))
    assert "Nothing was loaded" in str(refused.value) and "models[0].provider: is 'mistral'" in str(refused.value)
    assert not LanguageModel.objects.exists() and not CastDefinition.objects.exists()


def test_model_of_the_same_name_replaces_the_earlier_one(tmp_path: Path) -> None:
    call_command("load_models", write_cast_file(tmp_path), stdout=StringIO())
    said = StringIO()
    call_command("load_models", write_cast_file(tmp_path, model_id="qwen3:14b"), stdout=said)
    assert LanguageModel.objects.get().model_id == "qwen3:14b"
    assert "models: 0 new, 1 changed, 0 unchanged" in said.getvalue()


def test_last_of_two_prices_of_one_day_is_used(tmp_path: Path) -> None:
    price = {"effective_from": "2026-11-01", "input": "1", "source": "a", "read_on": "2026-11-01"}
    apart = {**price, "model": "mine", "input": "2"}
    path = write_models_file(
        tmp_path,
        {"models": [{"name": "mine", "provider": "local", "model_id": "m", "prices": [price]}], "prices": [apart]},
    )
    load_files.load_models(load_files.parse_model_files([path]))
    assert ModelPrice.objects.get().input == 2


@pytest.mark.usefixtures("shipped_models")
def test_run_config_contains_every_role_and_model() -> None:
    made = cast_availability.freeze_cast("paper", KEYS)
    assert sorted(made["models"]) == [
        "claude-sonnet-4", "deepseek-r1", "gemini-2.5-flash", "gpt-4o", "gpt-5", "qwen3-235b-thinking",
    ]  # fmt: skip
    assert made["models"]["claude-sonnet-4"]["model_id"] == "claude-sonnet-4-20250514"
    read = RunConfig.from_json(json.loads(json.dumps(made)))
    assert (read.agent.name, read.transition_model.name) == ("gpt-5", "claude-sonnet-4")
    assert read.transition_model.params.thinking_budget == 4096
    assert [player.name for player in read.classifiers][:2] == ["gpt-5", "claude-sonnet-4"]
    assert read.get_context_limit(read.transition_model) == 200_000


@pytest.mark.usefixtures("shipped_models")
def test_rule_based_cast_has_an_empty_run_config_and_needs_no_key() -> None:
    assert cast_availability.freeze_cast("offline", {}) == {}
    assert find_cast_line("offline", {}).is_ready and not find_cast_line("offline", {}).speaks


@pytest.mark.usefixtures("shipped_models")
def test_missing_key_is_reported_by_variable_name() -> None:
    without = {name: key for name, key in KEYS.items() if name != "OPENROUTER_API_KEY"} | {"GEMINI_API_KEY": "  "}
    missing = "GEMINI_API_KEY is not set: gemini needs a key; OPENROUTER_API_KEY is not set: openrouter needs a key"
    with pytest.raises(model_obstacles.NotReadyError) as refused:
        cast_availability.freeze_cast("paper", without)
    assert str(refused.value) == f"The cast 'paper' cannot run: {missing}"
    assert find_cast_line("paper", without).why_not == missing
    assert (
        cast_availability.freeze_cast("current-claude-alone", {"ANTHROPIC_API_KEY": "k"})["cast"]["name"]
        == "current-claude-alone"
    )


@pytest.mark.usefixtures("shipped_models")
def test_invalid_base_url_makes_a_cast_unavailable() -> None:
    assert "OPENAI_BASE_URL" in find_cast_line("paper", {**KEYS, "OPENAI_BASE_URL": "localhost"}).why_not
    assert find_cast_line("paper", {**KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}).is_ready


def test_local_server_needs_no_key(tmp_path: Path) -> None:
    call_command("load_models", write_cast_file(tmp_path), stdout=StringIO())
    assert cast_availability.freeze_cast("my-cast", {})["models"]["mine"]["provider"] == "local"
    assert find_cast_line("my-cast", {}).is_ready


@pytest.mark.usefixtures("shipped_models")
def test_cast_with_a_retired_model_is_available_with_a_warning() -> None:
    found = find_cast_line("paper")
    assert found.is_ready
    assert found.warnings[1] == (
        "claude-sonnet-4-20250514 was switched off on 2026-06-15: it answers only if ANTHROPIC_BASE_URL points elsewhere."
    )
    assert find_cast_line("current").warnings == ()


@pytest.mark.parametrize(
    ("lifecycle", "day", "ended"),
    [
        ("active", None, False),
        ("unknown", None, False),
        ("retired", None, True),
        ("retiring", "2026-12-02", False),  # the day after today
        ("retiring", "2026-12-01", True),
    ],
)
def test_model_is_retired_from_the_date_its_provider_named(lifecycle: str, day: str | None, ended: bool) -> None:
    row = LanguageModel(lifecycle=lifecycle, retires_on=day and date.fromisoformat(day))
    assert model_obstacles.is_retired(row, date(2026, 12, 1)) is ended


@pytest.mark.usefixtures("shipped_models")
def test_retired_models_are_listed_with_the_casts_that_use_them() -> None:
    found = cast_availability.find_retired(["paper", "paper-gpt-4o", "current", "offline"], date(2026, 11, 24))
    assert [(one.model, one.casts) for one in found] == [("claude-sonnet-4", ("paper", "paper-gpt-4o"))]
    assert found[0].message == (
        "claude-sonnet-4-20250514 was switched off on 2026-06-15: it answers only if ANTHROPIC_BASE_URL points elsewhere "
        "(used by paper, paper-gpt-4o)."
    )
    later = cast_availability.find_retired(["paper"], date(2026, 12, 11))
    assert [one.model for one in later] == ["claude-sonnet-4", "gemini-2.5-flash", "gpt-5"]
    assert cast_availability.find_retired(["current"], date(2026, 12, 11)) == []


@pytest.mark.usefixtures("shipped_models")
def test_cast_with_a_deleted_model_is_unavailable_with_its_name() -> None:
    LanguageModel.objects.get(name="gpt-4o").delete()
    assert find_cast_line("paper").why_not == "not loaded: gpt-4o (python manage.py load_models)"
    with pytest.raises(model_obstacles.NotReadyError, match="not loaded: gpt-4o"):
        cast_availability.describe_cast("paper")


@pytest.mark.usefixtures("shipped_models")
def test_unknown_cast_is_refused_with_the_existing_names() -> None:
    with pytest.raises(run_config.UnknownCastError) as refused:
        cast_availability.freeze_cast("gpt-9", KEYS)
    assert "offline, offline-lapses, offline-random, offline-gaps, current" in str(refused.value)
    assert "paper-deepseek-r1" in str(refused.value)


@pytest.mark.usefixtures("shipped_models")
def test_person_replaces_the_agent_and_the_other_roles_are_unchanged() -> None:
    made = cast_availability.freeze_with_person("current-on-rules", {})
    assert made["cast"]["agent"] == {"plays": "person"} and made["models"] == {}
    assert made["cast"]["transition_model"] == {"plays": "offline/rules"}
    offline = cast_availability.freeze_with_person("offline", {})["cast"]
    assert offline["evidence_classifier"] == {"plays": "offline/checklist"} and offline["panel"] == []
    with pytest.raises(model_obstacles.NotReadyError, match="ANTHROPIC_API_KEY"):
        cast_availability.freeze_with_person("current", {**KEYS, "ANTHROPIC_API_KEY": ""})
    assert "gpt-6.1-sol" in cast_availability.freeze_with_person("current", KEYS)["models"]  # the classifier


@pytest.mark.usefixtures("shipped_models")
def test_all_casts_are_listed_in_two_queries(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        assert len(cast_availability.list_casts(KEYS)) == 4 + 16


@pytest.mark.usefixtures("shipped_models")
def test_shipped_casts_list_which_roles_use_models() -> None:
    found = {line.name: line for line in cast_availability.list_casts(KEYS)}
    assert all(found[name].is_ready for name in found)
    rules = found["current-on-rules"]
    assert rules.speaks and not rules.answers_by_model and rules.transition_model == "offline/rules"
    assert found["paper"].panel[0] == "claude-sonnet-4" and found["paper"].answers_by_model
