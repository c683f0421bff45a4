"""Ordering episodes and twins by casts with language models: readiness, prompts, budget, worst case; and the models' page."""

import html
import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from simulation.calls import spending
from simulation.casts import fixtures, prompting, roster
from simulation.models import Experiment, LanguageModel, ModelPrice, PromptSet, Run
from simulation.runs import queueing
from simulation.web import models as models_page
from simulation.web.forms.orders import EpisodesForm, TwinsForm
from tests.support import run_factory

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
SECRET = "sk-SECRET-0123456789"
ADDRESS = "/episodes/new/"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, SECRET)


@pytest.fixture
def staff(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def two(db: None) -> list[Experiment]:
    """Two experiments of 100 and 50 steps, with the shipped models and casts."""
    fixtures.load_models(
        fixtures.read_models([django_settings.FIXTURES_DIR / f"{name}.json" for name in ("models", "casts")])
    )
    return [run_factory.experiment("caffeine"), run_factory.experiment("zebrafish", max_steps=50)]


def told(cast: str = "paper", **changes: Any) -> dict[str, Any]:
    form = {"experiments": ["caffeine", "zebrafish"], "cast": cast, "replicates": 2, "seed": 1}
    return {**form, "submission_id": queueing.new_submission_id(), **changes}


def errors(form: Any) -> dict[str, list[str]]:
    assert not form.is_valid()
    return {field: list(found) for field, found in form.errors.items()}


def page(answer: Any) -> str:
    return html.unescape(answer.content.decode())


@pytest.mark.usefixtures("two")
def test_the_terms_of_an_order_are_its_prompts_and_its_budget() -> None:
    form = EpisodesForm(told(max_cost="12.50", max_tokens="2000000", max_minutes="90"))
    assert form.is_valid(), form.errors
    assert form.terms() == {
        "prompt_set": "",
        "max_cost": Decimal("12.50"),
        "max_tokens": 2_000_000,
        "max_seconds": 5400,
    }
    assert EpisodesForm(told()).is_valid()


@pytest.mark.usefixtures("two")
def test_an_order_chooses_among_the_newest_versions_of_the_prompt_sets() -> None:
    built_in = prompting.stored()
    for text in ("old", "new"):
        PromptSet.objects.create(name="ours", sha256=text.ljust(64, "0"), files={"a.txt": text})
    chosen = f"{built_in.name}@{built_in.sha256[:12]}"
    form = EpisodesForm(told(prompt_set=chosen))
    assert form.is_valid() and form.terms()["prompt_set"] == chosen
    assert prompting.stored(chosen) == built_in
    offered = [value for value, _ in form.fields["prompt_set"].choices]  # type: ignore[attr-defined]  # a choice field's
    assert offered == [chosen, "ours@new000000000"]
    assert "prompt_set" in errors(EpisodesForm(told(prompt_set="ours@old000000000")))


@pytest.mark.usefixtures("two")
def test_a_cast_without_its_key_is_refused_with_the_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    assert errors(EpisodesForm(told())) == {
        "cast": ["paper is not available: GEMINI_API_KEY is not set: gemini needs a key."]
    }
    assert EpisodesForm(told("offline")).is_valid() and EpisodesForm(told("current-claude-alone")).is_valid()


@pytest.mark.usefixtures("two")
def test_a_budget_in_money_needs_a_price_for_every_model_of_the_cast() -> None:
    ModelPrice.objects.filter(model__name="gpt-4o").delete()  # on the panel
    said = errors(EpisodesForm(told(max_cost="5")))["max_cost"][0]
    assert said.startswith("No price is known for gpt-4o: input, cache_read, output.") and "docs/models.md" in said
    assert EpisodesForm(told(max_tokens="5000")).is_valid()
    assert EpisodesForm(told("current", max_cost="5")).is_valid()


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("field", "value"),
    [("max_cost", "0"), ("max_cost", "NaN"), ("max_cost", "1.005"), ("max_tokens", "999"), ("max_minutes", "0")],
)
def test_a_budget_out_of_bounds_is_refused(field: str, value: str) -> None:
    assert set(errors(EpisodesForm(told(**{field: value})))) == {field}


@pytest.mark.usefixtures("two")
def test_plain_answers_of_another_model_are_ordered_as_twins_only_where_a_model_answers() -> None:
    run_factory.transition(run_factory.episode("caffeine"), 1)
    twins = {"experiments": ["caffeine"], "per_transition": 1, "error": "none"}
    ordered = {**twins, "submission_id": queueing.new_submission_id()}
    assert TwinsForm({**ordered, "cast": "current"}).is_valid()
    for cast in ("offline", "current-on-rules"):
        assert (
            "Rules would only repeat the original outcome" in errors(TwinsForm({**ordered, "cast": cast}))["error"][0]
        )


@pytest.mark.usefixtures("two")
def test_the_start_page_shows_calls_and_worst_case_cost_before_anything_is_confirmed(staff: Client) -> None:
    ticked = {"experiments": ["caffeine", "zebrafish"], "cast": "current-on-rules", "replicates": "2"}
    said = page(staff.get(ADDRESS, ticked, headers={"HX-Request": "true"}))
    # Only the agent is a model: 2 x (100 + 50) steps, each said at most three times.
    assert "4 episodes" in said and "900 calls" in said and "300 calls if nothing has to be repeated" in said
    worst = spending.estimate(roster.setup("current-on-rules"), Experiment.objects.all(), 2)
    assert worst.cost and f"${worst.cost:,.2f}" in said
    assert not Run.objects.exists()


@pytest.mark.usefixtures("two")
def test_the_start_page_warns_of_models_that_are_switched_off_and_of_prices_nobody_knows(staff: Client) -> None:
    ModelPrice.objects.filter(model__name="gpt-5").delete()
    ticked = {"experiments": ["caffeine"], "cast": "paper", "replicates": "1"}
    said = page(staff.get(ADDRESS, ticked, headers={"HX-Request": "true"}))
    assert "claude-sonnet-4-20250514 was switched off on 2026-06-15" in said
    assert (
        "Maximum cost: <strong>unknown</strong>" in said
        and "No price is known for gpt-5: input, cache_read, output" in said
    )


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("cast", ["gpt-9", "", "offline'"])
def test_a_size_asked_of_no_cast_costs_nothing_and_breaks_nothing(staff: Client, cast: str) -> None:
    ticked = {"experiments": ["caffeine"], "cast": cast, "replicates": "9" * 50}
    answer = staff.get(ADDRESS, ticked, headers={"HX-Request": "true"})
    assert answer.status_code == 200 and "Maximum cost" not in page(answer)


def test_an_order_freezes_its_cast_its_prompts_and_its_budget(staff: Client, caffeine: Experiment) -> None:
    answer = staff.post(ADDRESS, told(max_cost="3.00", max_minutes="10", experiments=[caffeine.slug]))
    assert answer.status_code == 302, page(answer)
    run = Run.objects.get()
    assert (run.cast, run.max_cost, run.max_seconds, run.max_tokens) == ("paper", Decimal("3"), 600, None)
    assert run.setup["cast"]["agent"]["model"] == "gpt-5" and run.setup["prompt_set"]["name"] == prompting.BUILT_IN
    assert SECRET not in json.dumps(run.setup)


@pytest.mark.usefixtures("two")
def test_a_key_that_is_taken_away_before_start_is_pressed_is_told_on_the_form(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "disabled" not in radio(page(staff.get(ADDRESS)), "paper")
    monkeypatch.delenv("OPENAI_API_KEY")
    shown = page(staff.get(ADDRESS))
    assert "disabled" in radio(shown, "paper") and "disabled" not in radio(shown, "offline")
    answer = staff.post(ADDRESS, told())
    assert answer.status_code == 422 and "paper is not available: OPENAI_API_KEY is not set" in page(answer)
    assert not Run.objects.exists()


def radio(shown: str, cast: str) -> str:
    begin = shown.index(f'name="cast" value="{cast}"')
    return shown[begin : shown.index(">", begin)]


@pytest.mark.usefixtures("two")
def test_the_models_page_tells_lives_prices_sources_and_keys_and_never_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:passphrase@127.0.0.1:9/v1")
    shown = models_answer()
    assert "GEMINI_API_KEY is not set" in shown and "OPENAI_API_KEY is set" in shown
    assert "OPENAI_BASE_URL points to another address" in shown and "passphrase" not in shown and SECRET not in shown
    assert "claude-4-sonnet-20250514" in shown and "DEPRECATED_MODELS" in shown and "2026-06-15" in shown
    assert "From 2027-01-01" in shown  # Gemini's announced price
    assert "GEMINI_API_KEY is not set" in shown and "current-on-rules" in shown


@pytest.mark.usefixtures("two")
def test_what_a_models_file_says_is_shown_as_text() -> None:
    LanguageModel.objects.create(name="odd", provider="local", model_id="<script>x</script>", note="<b>bold</b>")
    shown = models_answer(raw=True)
    assert "<script>x" not in shown and "<b>bold" not in shown and "&lt;script&gt;x" in shown


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("today", "now", "later"),
    [
        (date(2026, 9, 1), None, ["0.75", "1.5"]),
        (date(2026, 12, 31), "0.75", ["1.5"]),
        (date(2027, 1, 1), "1.5", []),
    ],
)
def test_prices_of_today_and_of_later_days_are_told_apart(today: date, now: str | None, later: list[str]) -> None:
    """Gemini 3.8 Flash costs 0.75 dollars from 2026-09-02 on and 1.50 from 2027-01-01 on."""
    providers = models_page.provider_lines({}, today)
    line = next(line for each in providers for line in each.models if line.row.name == "gemini-3.8-flash")
    assert (line.price and dict(line.price.classes)["input"]) == now
    assert [dict(price.classes)["input"] for price in line.later] == later
    assert all(dict(price.classes)["cache write, 1 hour"] == "unknown" for price in line.later)


@pytest.mark.usefixtures("two")
def test_the_models_page_takes_the_same_queries_for_more_models(django_assert_num_queries: Any) -> None:
    for number in range(10):
        LanguageModel.objects.create(name=f"more-{number}", provider="local", model_id="m")
    with django_assert_num_queries(2):
        assert sum(len(line.models) for line in models_page.provider_lines({}, date(2027, 1, 1))) == 22


def models_answer(raw: bool = False) -> str:
    client = Client()
    client.force_login(User.objects.create_user("eva", is_staff=True))
    answer = client.get(reverse("simulation:models"))
    assert answer.status_code == 200
    return answer.content.decode() if raw else page(answer)


@pytest.mark.usefixtures("two")
def test_the_twins_page_shows_calls_and_worst_case_cost_before_anything_is_confirmed(staff: Client) -> None:
    for number in (1, 2, 3):
        run_factory.transition(run_factory.episode("caffeine", replicate=number), 1)
    ticked = {"experiments": ["caffeine", "zebrafish"], "cast": "current", "error": "both", "per_transition": "2"}
    said = page(staff.get(reverse("simulation:twins"), ticked, headers={"HX-Request": "true"}))
    # 3 steps x 2 errors x 2 times, each said at most three times.
    assert "12 twins" in said and "36 calls" in said and "12 calls if nothing has to be repeated" in said
    worst = spending.estimate_twins(roster.setup("current"), 12)
    assert worst.cost and f"${worst.cost:,.2f}" in said
    none = page(staff.get(reverse("simulation:twins"), {**ticked, "error": "none"}, headers={"HX-Request": "true"}))
    assert "6 twins" in none and not Run.objects.filter(kind="twins").exists()


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    "odd", [{"error": "grave"}, {"per_transition": "6"}, {"per_transition": "²"}, {"cast": "gpt-9"}]
)
def test_a_size_asked_of_no_twins_costs_nothing_and_breaks_nothing(staff: Client, odd: dict[str, str]) -> None:
    run_factory.transition(run_factory.episode("caffeine"), 1)
    ticked = {"experiments": ["caffeine"], "cast": "current", "error": "both", "per_transition": "1", **odd}
    answer = staff.get(reverse("simulation:twins"), ticked, headers={"HX-Request": "true"})
    assert answer.status_code == 200 and "Maximum cost" not in page(answer)


@pytest.mark.usefixtures("two")
def test_a_person_sees_what_the_models_that_answer_could_cost(staff: Client) -> None:
    ticked = {"experiment": "zebrafish", "cast": "current-claude-alone"}
    said = page(staff.get(reverse("simulation:new_person"), ticked, headers={"HX-Request": "true"}))
    # 50 steps, each said at most three times, and a verdict with its repair.
    assert "1 attempt" in said and "152 calls" in said and "51 calls if nothing has to be repeated" in said
    free = page(staff.get(reverse("simulation:new_person"), {**ticked, "cast": "offline"}, headers={"HX-Request": "1"}))
    assert "1 attempt" in free and "Maximum cost" not in free


@pytest.mark.parametrize("name", ["new_episodes", "twins", "new_person"])
def test_without_scripts_a_button_tells_the_worst_case_and_orders_nothing(
    staff: Client, caffeine: Experiment, name: str
) -> None:
    run_factory.transition(run_factory.episode(caffeine.slug), 1)
    made, address = Run.objects.filter(cast__in=("current", queueing.PERSON_CAST)), reverse(f"simulation:{name}")
    ordered = told("current", experiments=[caffeine.slug], experiment=caffeine.slug, error="both", per_transition=1)
    answer = staff.post(address, {**ordered, "size": "1"})
    assert answer.status_code == 200 and "Maximum cost" in page(answer) and not made.exists()
    assert staff.post(address, ordered).status_code == 302 and made.count() == 1
