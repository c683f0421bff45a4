"""A person takes the agent's place: the catalogue as a form, one choice after another, a transition model that answers."""

import html
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from simulation.lab.actions import Action
from simulation.models import Episode, EvidenceReview, Experiment, Run, Worker
from simulation.runs import control, laboratory, queueing
from simulation.scripted_server import Server
from simulation.web.forms.person_forms import ActionForm
from tests.support import speakers
from tests.support.steps import play_out

HTMX = {"HX-Request": "true"}


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", is_staff=True)


@pytest.fixture
def staff(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


@pytest.fixture
def attempt(caffeine: Experiment, ada: User) -> Episode:
    return queueing.queue_person(caffeine, "offline", by=ada)


def bench_of(episode: Episode) -> str:
    return reverse("simulation:play", args=[episode.code])


def text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def named(episode: Episode, name: str) -> str:
    """The barcode of the first material that is called so."""
    return next(m.barcode for m in laboratory.bench(episode).inventory if name in m.name)


def chosen(episode: Episode, action: str, *materials: str, **parameters: Any) -> dict[str, Any]:
    """The form of an action, filled in."""
    written = {f"bench-{name}": value for name, value in parameters.items()}
    return {"action": action, "number": episode.next_number, "bench-materials": materials, **written}


def form(episode: Episode, action: str, **written: Any) -> ActionForm:
    bench, data = laboratory.bench(episode), QueryDict(mutable=True)
    for name, value in written.items():
        data.setlist(f"bench-{name}", value if isinstance(value, list) else [value])
    kind = bench.catalogue.find(action)
    assert kind is not None
    return ActionForm(kind, bench.situation(), data)


def test_the_bench_is_for_staff_and_for_attempts_by_people(
    client: Client, attempt: Episode, caffeine: Experiment
) -> None:
    client.force_login(User.objects.create_user("rater"))
    assert [client.get(url).status_code for url in (bench_of(attempt), reverse("simulation:new_person"))] == [404, 404]
    client.force_login(User.objects.get(username="ada"))
    other = queueing.queue_episodes([caffeine], "offline", 1).episodes.get()
    assert client.get(bench_of(other))["Location"] == reverse("simulation:episode", args=[other.code])


def test_each_transition_model_is_offered_once_and_only_if_it_can_answer(
    staff: Client, lab: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    page = text(staff.get(reverse("simulation:new_person")))
    assert page.count('class="option__name">offline/rules<') == 1 and 'value="offline" required checked' in page
    assert "ANTHROPIC_API_KEY is not set" in page
    wanted = {"experiment": "caffeine-hplc-analysis", "cast": "paper", "submission_id": "0" * 32}
    refused = staff.post(reverse("simulation:new_person"), wanted)
    assert refused.status_code == 422 and "ANTHROPIC_API_KEY" in text(refused)
    assert staff.post(reverse("simulation:new_person"), {**wanted, "cast": "nobody"}).status_code == 422
    assert not Episode.objects.exists()


def test_an_attempt_with_a_budget_is_refused_where_the_answerer_has_no_price_and_kept_where_it_has(
    staff: Client, lab: None, model_server: Server
) -> None:
    speakers.cast("dear")
    speakers.cast("unpriced", priced=False, transition_model=speakers.player("free"))
    speakers.model("free", priced=False)
    wanted = {"experiment": "caffeine-hplc-analysis", "submission_id": "0" * 32, "max_cost": "0.50"}
    refused = staff.post(reverse("simulation:new_person"), {**wanted, "cast": "unpriced"})
    assert refused.status_code == 422 and "none is known of free" in text(refused)
    staff.post(reverse("simulation:new_person"), {**wanted, "cast": "dear"})
    assert str(Run.objects.get().max_cost) == "0.500000"


def test_an_attempt_is_stored_as_cast_human_and_waits_for_the_first_choice(staff: Client, lab: None) -> None:
    wanted = {"experiment": "caffeine-hplc-analysis", "cast": "offline"}
    episodes = []
    for submission in ("0" * 32, "1" * 32):
        answer = staff.post(reverse("simulation:new_person"), {**wanted, "submission_id": submission})
        episodes.append(Episode.objects.latest("pk"))
        assert answer["Location"] == bench_of(episodes[-1])
    assert [(one.cast, one.replicate, one.awaits_person) for one in episodes] == [
        ("human", 1, True), ("human", 2, True),
    ]  # fmt: skip
    again = staff.post(reverse("simulation:new_person"), {**wanted, "submission_id": "1" * 32})
    assert again["Location"] == bench_of(episodes[1]) and Episode.objects.count() == 2, "pressed twice, begun once"
    assert play_out(episodes[0].run).ended == 0
    begun = text(staff.get(reverse("simulation:new_person")))
    assert all(f'href="{bench_of(one)}"' in begun for one in episodes)
    control.stop(episodes[0])
    assert bench_of(episodes[0]) not in text(staff.get(reverse("simulation:new_person")))


def test_the_bench_shows_what_an_agent_sees_and_nothing_that_is_hidden(staff: Client, attempt: Episode) -> None:
    page = text(staff.get(bench_of(attempt)))
    assert attempt.experiment.goal in page and "100 of 100" in page
    for material in laboratory.bench(attempt).inventory.usable():
        assert material.name in page and material.barcode in page
    assert '<optgroup label="Measurement">' in page and "ManifestMaterials" not in page
    assert "ledger" not in page and "rubric" not in page


def test_every_action_of_the_catalogue_is_a_form(attempt: Episode) -> None:
    bench = laboratory.bench(attempt)
    for kind in bench.catalogue.types.values():
        made = ActionForm(kind, bench.situation())
        shown = "".join(str(field) for field in made.parameters)
        wanted = [key for p in kind.parameters for key in (p.keys or {p.name: None})]
        assert len(made.parameters) == len(wanted), kind.name
        assert all(f'name="bench-{p.name}' in shown for p in kind.parameters), kind.name


def test_the_form_of_the_chosen_action_comes_with_or_without_javascript(staff: Client, attempt: Episode) -> None:
    whole = text(staff.get(bench_of(attempt), {"action": "Transfer"}))
    part = text(staff.get(bench_of(attempt), {"action": "Transfer"}, headers=HTMX))
    for page in (whole, part):
        assert 'name="bench-amount_number"' in page and "one source and one or more destinations" in page
        assert '<option value="µL" selected>' in page  # the unit of the least amount allowed
    assert "<html" in whole and "<html" not in part
    assert "On the bench" in text(staff.get(bench_of(attempt), {"action": "Teleport"}, headers=HTMX))


def test_what_is_typed_reads_as_an_agent_would_write_it(attempt: Episode) -> None:
    coffee, vials = named(attempt, "Brewed coffee"), named(attempt, "vials")
    made = form(
        attempt, "Transfer", materials=[vials], source=coffee, amount_number="1.5", amount_unit="mL",
        mix_before="false", tip_type="standard tip", mix_cycles="",
    )  # fmt: skip
    assert made.is_valid(), made.errors
    # the source counts as picked, and materials come in the order of the bench
    assert made.action() == Action(
        "Transfer", (coffee, vials),
        {"source": coffee, "amount": "1.5 mL", "tip_type": "standard tip", "mix_before": "false"},
    )  # fmt: skip


def test_objects_and_lists_are_put_together_from_their_parts(attempt: Episode) -> None:
    coffee, tea = named(attempt, "Brewed coffee"), named(attempt, "Black tea")
    parts = {"detector_voltages.FSC_number": "400", "detector_voltages.FSC_unit": "V"}
    made = form(attempt, "FlowCytometry", materials=[coffee], compensation_controls=[tea], **parts)
    assert made.is_valid(), made.errors
    assert made.action().parameters == {"compensation_controls": [tea], "detector_voltages": {"FSC": "400 V"}}
    assert set(made.action().materials) == {coffee, tea}


def test_what_the_catalogue_refuses_is_said_by_its_field_in_its_own_words(attempt: Episode) -> None:
    high = {"detector_voltages.FSC_number": "2", "detector_voltages.FSC_unit": "kV"}
    for action, written, field, told in (
        ("Transfer", {"amount_number": "5", "amount_unit": "L"}, "amount", "amount is 5 L; it must be 0.1 µL to 1 L"),
        ("Transfer", {"amount_number": "5", "amount_unit": "furlong"}, "amount", "units allowed: nL, µL, mL, L"),
        ("Transfer", {"amount_number": "five", "amount_unit": "L"}, "amount", "is not a quantity"),
        ("Transfer", {}, "source", "Transfer needs source: a barcode"),
        ("Transfer", {"mix_cycles": "-1"}, "mix_cycles", "it must be 0 to 30"),
        ("Transfer", {"tip_type": "golden"}, "tip_type", "must be one of filter tip"),
        ("Transfer", {"label": "x" * 81}, "label", "at most 80 characters"),
        ("Transfer", {"materials": ["MAT-00000000"]}, "materials", "MAT-00000000 is no longer on the bench"),
        ("ImageSample", {}, "materials", "ImageSample takes 1 to"),
        ("FlowCytometry", high, "detector_voltages.FSC", "FSC is 2 kV; it must be 0 V to 1000 V"),
        ("VisualInspection", {"question": "look at it"}, "question", "ends in a question mark"),
    ):
        made = form(attempt, action, **written)
        assert not made.is_valid()
        assert told in " ".join(made.errors[field])


def test_a_refused_form_costs_no_step_and_keeps_what_was_typed(staff: Client, attempt: Episode) -> None:
    data = chosen(attempt, "Transfer", amount_number="5", amount_unit="L", source=named(attempt, "Brewed coffee"))
    answer = staff.post(bench_of(attempt), data)
    page = text(answer)
    assert answer.status_code == 422 and 'href="#id_bench-amount_0"' in page and 'id="id_bench-amount_0"' in page
    assert 'value="5"' in page and '<option value="L" selected>' in page
    attempt.refresh_from_db()
    assert (attempt.next_number, attempt.awaits_person, attempt.pending) == (1, True, None)


def test_a_choice_is_answered_by_a_worker_and_its_outcome_shown(staff: Client, attempt: Episode) -> None:
    Worker.objects.create(owner="w", kind="embedded")
    data = chosen(attempt, "MeasureVolume", named(attempt, "Brewed coffee"))
    assert staff.post(bench_of(attempt), data)["Location"] == bench_of(attempt)
    assert "computing the outcome" in text(staff.get(bench_of(attempt)))
    waiting = staff.get(bench_of(attempt), headers=HTMX)
    assert 'hx-trigger="every 2s"' in text(waiting) and "HX-Refresh" not in waiting
    play_out(attempt.run)
    assert staff.get(bench_of(attempt), headers=HTMX)["HX-Refresh"] == "true"
    page = text(staff.get(bench_of(attempt)))
    assert "Outcome of step 1" in page and "Step 2: choose an action" in page and "99 of 100" in page
    step = attempt.transitions.get().step
    assert step["outcome"]["new_observations"][0]["value"] in page
    assert step["outcome"]["reasoning"] not in page  # the agent is not told it either
    attempt.refresh_from_db()
    staff.post(bench_of(attempt), chosen(attempt, "ImageSample", named(attempt, "Black tea")))
    play_out(attempt.run)
    page = text(staff.get(bench_of(attempt)))
    history = page[page.index('id="history"') :]
    assert "Outcome of step 2" in page and "MeasureVolume" in history and "ImageSample" not in history


def test_a_choice_that_is_sent_twice_is_played_once(staff: Client, attempt: Episode) -> None:
    data = chosen(attempt, "MeasureVolume", named(attempt, "Brewed coffee"))
    staff.post(bench_of(attempt), data)
    again = staff.post(bench_of(attempt), data, follow=True)
    assert "Nothing was done" in text(again)
    play_out(attempt.run)
    staff.post(bench_of(attempt), data)
    play_out(attempt.run)
    assert attempt.transitions.count() == 1


def test_another_member_of_staff_watches_and_does_not_choose(staff: Client, attempt: Episode) -> None:
    data = chosen(attempt, "MeasureVolume", named(attempt, "Brewed coffee"))
    staff.force_login(User.objects.create_user("eve", is_staff=True))
    page = text(staff.get(bench_of(attempt), {"action": "MeasureVolume"}))
    assert "ada is playing this episode" in page and "Perform action" not in page
    staff.post(bench_of(attempt), data)
    attempt.refresh_from_db()
    assert attempt.awaits_person


def test_a_submission_is_judged_and_the_verdict_shown(staff: Client, attempt: Episode) -> None:
    assert "Give up" in text(staff.get(bench_of(attempt), {"action": "Quit"}))
    staff.post(bench_of(attempt), chosen(attempt, "SubmitMaterialsObservationsForReview"))
    play_out(attempt.run)
    attempt.refresh_from_db()
    assert attempt.status == "submitted" and not EvidenceReview.objects.get(episode=attempt).sufficient
    page = text(staff.get(bench_of(attempt)))
    assert "not sufficient" in page and "View transcript" in page and ": choose an action" not in page


def test_a_model_that_names_a_material_like_a_page_changes_no_page(staff: Client, attempt: Episode) -> None:
    bad = '<script>alert(1)</script><b id="x">'
    initial = [
        *attempt.initial,
        {**attempt.initial[0], "barcode": "MAT-AAAAAAAA", "name": bad, "properties": {bad: bad}},
    ]
    Episode.objects.filter(pk=attempt.pk).update(initial=initial)
    raw = staff.get(bench_of(attempt), {"action": "Transfer"}).content.decode()
    assert raw.count(bad) == 0 and raw.count(html.escape(bad)) >= 2
