"""Forms that start runs of episodes and twins with language-model casts, and the models page."""

import html
import json
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db.models import Q
from django.test import Client
from django.urls import reverse

from simulation.calls import run_usage
from simulation.casts import cast_availability, load_files, prompt_store
from simulation.models import Experiment, LanguageModel, ModelPrice, PromptSet, Run
from simulation.runs import create
from simulation.web import cast_choices
from simulation.web import catalogue as models_page
from simulation.web.run_forms import EpisodesForm
from simulation.web.twin_forms import TwinsForm
from tests.support import run_factory

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
SECRET = "sk-SECRET-0123456789"
ADDRESS = "/episodes/new/"


@pytest.fixture(autouse=True)
def set_api_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)


@pytest.fixture
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def two_experiments(db: None) -> list[Experiment]:
    """Create two experiments of 100 and 50 steps, and load the shipped models and casts."""
    load_files.load_models(
        load_files.parse_model_files([django_settings.FIXTURES_DIR / f"{name}.json" for name in ("models", "casts")])
    )
    return [run_factory.create_experiment("caffeine"), run_factory.create_experiment("zebrafish", max_steps=50)]


def build_form_data(cast: str = "paper", **changes: Any) -> dict[str, Any]:
    form = {"experiments": ["caffeine", "zebrafish"], "cast": cast, "replicates": 2, "seed": 1}
    return {**form, "submission_id": create.create_submission_id(), **changes}


def collect_form_errors(form: Any) -> dict[str, list[str]]:
    assert not form.is_valid()
    return {field: list(found) for field, found in form.errors.items()}


def get_text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


@pytest.mark.usefixtures("two_experiments")
def test_episodes_form_returns_prompt_set_and_budget() -> None:
    form = EpisodesForm(build_form_data(max_cost="12.50", max_tokens="2000000", max_minutes="90"))
    assert form.is_valid(), form.errors
    assert form.get_options() == {
        "prompt_set": "",
        "max_cost": Decimal("12.50"),
        "max_tokens": 2_000_000,
        "max_seconds": 5400,
    }
    assert EpisodesForm(build_form_data()).is_valid()


@pytest.mark.usefixtures("two_experiments")
def test_prompt_set_field_offers_only_newest_versions() -> None:
    built_in = prompt_store.get_prompt_set()
    for text in ("old", "new"):
        PromptSet.objects.create(name="ours", sha256=text.ljust(64, "0"), files={"agent.system.txt": text})
    chosen = f"{built_in.name}@{built_in.sha256[:12]}"
    form = EpisodesForm(build_form_data(prompt_set=chosen))
    assert form.is_valid() and form.get_options()["prompt_set"] == chosen
    assert prompt_store.get_prompt_set(chosen) == built_in
    offered = [value for value, _ in form.fields["prompt_set"].choices]  # type: ignore[attr-defined]  # only choice fields have it
    protocol = prompt_store.get_prompt_set("wetbench-protocol")
    assert set(offered) == {"", chosen, f"{protocol.name}@{protocol.sha256[:12]}", "ours@new000000000"}
    assert "prompt_set" in collect_form_errors(EpisodesForm(build_form_data(prompt_set="ours@old000000000")))


@pytest.mark.usefixtures("two_experiments")
def test_cast_without_its_api_key_is_refused_with_the_variable_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    assert collect_form_errors(EpisodesForm(build_form_data())) == {
        "cast": ["paper is not available: GEMINI_API_KEY is not set: gemini needs a key."]
    }
    assert (
        EpisodesForm(build_form_data("offline")).is_valid()
        and EpisodesForm(build_form_data("current-claude-alone")).is_valid()
    )


@pytest.mark.usefixtures("two_experiments")
def test_cost_budget_requires_a_price_for_every_model() -> None:
    ModelPrice.objects.filter(model__name="gpt-4o").delete()  # on the panel
    said = collect_form_errors(EpisodesForm(build_form_data(max_cost="5")))["max_cost"][0]
    assert said.startswith("No price is known for gpt-4o: input, cache_read, output.") and "docs/models.md" in said
    assert EpisodesForm(build_form_data(max_tokens="5000")).is_valid()
    assert EpisodesForm(build_form_data("current", max_cost="5")).is_valid()


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize(
    ("field", "value"),
    [("max_cost", "0"), ("max_cost", "NaN"), ("max_cost", "1.005"), ("max_tokens", "999"), ("max_minutes", "0")],
)
def test_budget_out_of_bounds_is_refused(field: str, value: str) -> None:
    assert set(collect_form_errors(EpisodesForm(build_form_data(**{field: value})))) == {field}


@pytest.mark.usefixtures("two_experiments")
def test_plain_answer_twins_require_a_language_model_as_transition_model() -> None:
    run_factory.create_transition(run_factory.create_episode("caffeine"), 1)
    twins = {"experiments": ["caffeine"], "per_transition": 1, "error": "none"}
    ordered = {**twins, "submission_id": create.create_submission_id()}
    assert TwinsForm({**ordered, "cast": "current"}).is_valid()
    for cast in ("offline", "current-on-rules"):
        assert (
            "Rules would only repeat the original outcome"
            in collect_form_errors(TwinsForm({**ordered, "cast": cast}))["error"][0]
        )


@pytest.mark.usefixtures("two_experiments")
def test_start_page_shows_calls_and_worst_case_cost_before_starting(staff_client: Client) -> None:
    ticked = {"experiments": ["caffeine", "zebrafish"], "cast": "current-on-rules", "replicates": "2"}
    said = get_text(staff_client.get(ADDRESS, ticked, headers={"HX-Request": "true"}))
    # Only the agent is a model: 2 x (100 + 50) steps, each sent at most three times.
    assert "4 episodes" in said and "900 calls" in said and "300 calls if nothing has to be repeated" in said
    worst = run_usage.estimate_episodes(
        cast_availability.describe_cast("current-on-rules"), Experiment.objects.all(), 2
    )
    assert worst.cost and f"${worst.cost:,.2f}" in said
    assert not Run.objects.exists()


@pytest.mark.usefixtures("two_experiments")
def test_start_page_warns_of_retired_models_and_missing_prices(staff_client: Client) -> None:
    ModelPrice.objects.filter(model__name="gpt-5").delete()
    ticked = {"experiments": ["caffeine"], "cast": "paper", "replicates": "1"}
    said = get_text(staff_client.get(ADDRESS, ticked, headers={"HX-Request": "true"}))
    assert "claude-sonnet-4-20250514 was switched off on 2026-06-15" in said
    assert (
        "Maximum cost: <strong>unknown</strong>" in said
        and "No price is known for gpt-5: input, cache_read, output" in said
    )


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize("cast", ["gpt-9", "", "offline'"])
def test_run_form_with_an_unknown_cast_shows_no_cost_estimate(staff_client: Client, cast: str) -> None:
    ticked = {"experiments": ["caffeine"], "cast": cast, "replicates": "9" * 50}
    answer = staff_client.get(ADDRESS, ticked, headers={"HX-Request": "true"})
    assert answer.status_code == 200 and "Maximum cost" not in get_text(answer)


def test_started_run_stores_cast_prompts_and_budget(staff_client: Client, caffeine: Experiment) -> None:
    answer = staff_client.post(ADDRESS, build_form_data(max_cost="3.00", max_minutes="10", experiments=[caffeine.slug]))
    assert answer.status_code == 302, get_text(answer)
    run = Run.objects.get()
    assert (run.cast, run.max_cost, run.max_seconds, run.max_tokens) == ("paper", Decimal("3"), 600, None)
    assert run.setup["cast"]["agent"]["model"] == "gpt-5" and run.setup["prompt_set"]["name"] == prompt_store.BUILT_IN
    assert SECRET not in json.dumps(run.setup)


@pytest.mark.usefixtures("two_experiments")
def test_api_key_removed_before_the_start_is_reported_on_the_form(
    staff_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'name="cast" value="paper"' in get_text(staff_client.get(ADDRESS))
    monkeypatch.delenv("OPENAI_API_KEY")
    shown = get_text(staff_client.get(ADDRESS))
    assert 'name="cast" value="paper"' not in shown and 'name="cast" value="offline"' in shown
    answer = staff_client.post(ADDRESS, build_form_data())
    assert answer.status_code == 422 and "paper is not available: OPENAI_API_KEY is not set" in get_text(answer)
    assert not Run.objects.exists()


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize("name", ["new_episodes", "new_twins", "new_person"])
def test_casts_without_keys_are_one_line_that_names_the_variables(
    staff_client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert "need API keys" not in get_text(staff_client.get(reverse(f"simulation:{name}")))
    for key in KEYS:
        monkeypatch.delenv(key)
    shown = get_text(staff_client.get(reverse(f"simulation:{name}")))
    assert re.search(r"<summary>\d+ casts need API keys</summary>", shown)
    assert "<code>OPENAI_API_KEY</code>" in shown and "ANTHROPIC_API_KEY_FILE" in shown


def test_casts_that_lack_more_than_keys_are_counted_apart_with_the_reason() -> None:
    rows = {
        "a": cast_availability.RaterOption("a", "", why_not="X_KEY is not set", missing_keys=("X_KEY",)),
        "b": cast_availability.RaterOption("b", "", why_not="not loaded: m"),
        "c": cast_availability.RaterOption("c", "", why_not="X_KEY is not set", missing_keys=("X_KEY",)),
        "d": cast_availability.RaterOption("d", ""),
    }
    found = cast_choices.group_unavailable("cast", rows.items())
    assert found and found.summary == "2 casts need API keys; 1 cast cannot run here for another reason"
    assert [group.names for group in found.groups] == [("a", "c"), ("b",)]
    assert cast_choices.group_unavailable("cast", [("d", rows["d"])]) is None


@pytest.mark.usefixtures("two_experiments")
def test_models_page_shows_lifecycles_prices_and_key_status_but_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:passphrase@127.0.0.1:9/v1")
    shown = get_models_page()
    assert "GEMINI_API_KEY is not set" in shown and "OPENAI_API_KEY is set" in shown
    assert "OPENAI_BASE_URL points to another address" in shown and "passphrase" not in shown and SECRET not in shown
    assert "claude-4-sonnet-20250514" in shown and "DEPRECATED_MODELS" in shown and "2026-06-15" in shown
    assert "From 2027-01-01" in shown  # Gemini's announced price
    assert "GEMINI_API_KEY is not set" in shown and "current-on-rules" in shown


@pytest.mark.usefixtures("two_experiments")
def test_models_page_escapes_texts_of_model_files() -> None:
    LanguageModel.objects.create(name="odd", provider="local", model_id="<script>x</script>", note="<b>bold</b>")
    shown = get_models_page(raw=True)
    assert "<script>x" not in shown and "<b>bold" not in shown and "&lt;script&gt;x" in shown


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize(
    ("today", "now", "later"),
    [
        (date(2026, 9, 1), None, ["0.75", "1.5"]),
        (date(2026, 12, 31), "0.75", ["1.5"]),
        (date(2027, 1, 1), "1.5", []),
    ],
)
def test_models_page_separates_current_and_future_prices(today: date, now: str | None, later: list[str]) -> None:
    """Gemini 3.8 Flash costs 0.75 dollars from 2026-09-02 on and 1.50 from 2027-01-01 on."""
    providers = models_page.list_providers({}, today)
    line = next(line for each in providers for line in each.models if line.row.name == "gemini-3.8-flash")
    assert (line.price and dict(line.price.classes)["input"]) == now
    assert [dict(price.classes)["input"] for price in line.later] == later
    assert all(dict(price.classes)["cache write, 1 hour"] == "unknown" for price in line.later)


@pytest.mark.usefixtures("two_experiments")
def test_models_page_uses_the_same_queries_for_more_models(django_assert_num_queries: Any) -> None:
    for number in range(10):
        LanguageModel.objects.create(name=f"more-{number}", provider="local", model_id="m")
    with django_assert_num_queries(2):
        assert sum(len(line.models) for line in models_page.list_providers({}, date(2027, 1, 1))) == 27


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [(None, False), (" https://api.openai.com/v1/ ", False), ("http://127.0.0.1:9000/v1", True)],
)
def test_models_page_marks_a_provider_only_if_its_address_is_not_the_usual_one(
    address: str | None, elsewhere: bool
) -> None:
    environ = {} if address is None else {"OPENAI_BASE_URL": address}
    providers = {row.name: row for row in models_page.list_providers(environ, date(2027, 1, 1))}
    assert (providers["openai"].elsewhere, providers["anthropic"].elsewhere) == (elsewhere, False)


def get_models_page(raw: bool = False) -> str:
    client = Client()
    client.force_login(User.objects.create_user("eva", is_staff=True))
    answer = client.get(reverse("simulation:models"))
    assert answer.status_code == 200
    return answer.content.decode() if raw else get_text(answer)


@pytest.mark.usefixtures("two_experiments")
def test_twins_page_shows_calls_and_worst_case_cost_before_starting(staff_client: Client) -> None:
    for number in (1, 2, 3):
        run_factory.create_transition(run_factory.create_episode("caffeine", replicate=number), 1)
    ticked = {"experiments": ["caffeine", "zebrafish"], "cast": "current", "error": "both", "per_transition": "2"}
    said = get_text(staff_client.get(reverse("simulation:new_twins"), ticked, headers={"HX-Request": "true"}))
    # 3 steps x 2 errors x 2 times, each sent at most three times.
    assert "12 twins" in said and "36 calls" in said and "12 calls if nothing has to be repeated" in said
    worst = run_usage.estimate_twins(cast_availability.describe_cast("current"), 12)
    assert worst.cost and f"${worst.cost:,.2f}" in said
    none = get_text(
        staff_client.get(reverse("simulation:new_twins"), {**ticked, "error": "none"}, headers={"HX-Request": "true"})
    )
    assert "6 twins" in none and not Run.objects.filter(kind="twins").exists()


@pytest.mark.usefixtures("two_experiments")
@pytest.mark.parametrize(
    "odd", [{"error": "grave"}, {"per_transition": "6"}, {"per_transition": "²"}, {"cast": "gpt-9"}]
)
def test_twins_form_with_invalid_values_shows_no_cost_estimate(staff_client: Client, odd: dict[str, str]) -> None:
    run_factory.create_transition(run_factory.create_episode("caffeine"), 1)
    ticked = {"experiments": ["caffeine"], "cast": "current", "error": "both", "per_transition": "1", **odd}
    answer = staff_client.get(reverse("simulation:new_twins"), ticked, headers={"HX-Request": "true"})
    assert answer.status_code == 200 and "Maximum cost" not in get_text(answer)


@pytest.mark.usefixtures("two_experiments")
def test_human_agent_page_shows_worst_case_cost_of_the_models(staff_client: Client) -> None:
    ticked = {"experiment": "zebrafish", "cast": "current-claude-alone"}
    said = get_text(staff_client.get(reverse("simulation:new_person"), ticked, headers={"HX-Request": "true"}))
    # 50 steps, each sent at most three times, and a verdict with its repair.
    assert "1 attempt" in said and "152 calls" in said and "51 calls if nothing has to be repeated" in said
    free = get_text(
        staff_client.get(reverse("simulation:new_person"), {**ticked, "cast": "offline"}, headers={"HX-Request": "1"})
    )
    assert "1 attempt" in free and "Maximum cost" not in free


@pytest.mark.parametrize("name", ["new_episodes", "new_twins", "new_person"])
def test_worst_case_button_works_without_javascript_and_starts_nothing(
    staff_client: Client, caffeine: Experiment, name: str
) -> None:
    run_factory.create_transition(run_factory.create_episode(caffeine.slug), 1)
    made, address = Run.objects.filter(Q(cast="current") | Q(cast__startswith="human")), reverse(f"simulation:{name}")
    ordered = build_form_data(
        "current", experiments=[caffeine.slug], experiment=caffeine.slug, error="both", per_transition=1
    )
    answer = staff_client.post(address, {**ordered, "size": "1"})
    assert answer.status_code == 200 and "Maximum cost" in get_text(answer) and not made.exists()
    assert staff_client.post(address, ordered).status_code == 302 and made.count() == 1
