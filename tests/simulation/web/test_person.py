"""Human agents: action forms from the catalogue, one choice at a time, played by a transition model."""

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from simulation.lab.actions import Action
from simulation.models import Episode, EvidenceReview, Experiment, Run, Worker
from simulation.runs import benches, control, create, people
from simulation.web.human_agent import ActionForm
from simulation.web.reference_comparison import compare_with_reference
from tests.support import model_casts
from tests.support.model_server import Server
from tests.support.steps import run_to_end

HTMX = {"HX-Request": "true"}


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", is_staff=True)


@pytest.fixture
def staff_client(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


@pytest.fixture
def human_episode(caffeine: Experiment, ada: User) -> Episode:
    return create.create_human_episode(caffeine, "offline", user=ada)


@pytest.fixture
def practice_episode(caffeine: Experiment, ada: User) -> Episode:
    return create.create_human_episode(caffeine, "offline", user=ada, practice=True)


def bench_url(episode: Episode) -> str:
    return reverse("simulation:play", args=[episode.code])


def get_text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def find_barcode(episode: Episode, name: str) -> str:
    """Return the barcode of the first material whose name contains this text."""
    return next(m.barcode for m in benches.build_bench(episode).inventory if name in m.name)


def build_action_data(episode: Episode, action: str, *materials: str, **parameters: Any) -> dict[str, Any]:
    """Return the data of a filled-in action form."""
    written = {f"bench-{name}": value for name, value in parameters.items()}
    return {"action": action, "number": episode.next_number, "bench-materials": materials, **written}


def build_action_form(episode: Episode, action: str, **written: Any) -> ActionForm:
    bench, data = benches.build_bench(episode), QueryDict(mutable=True)
    for name, value in written.items():
        data.setlist(f"bench-{name}", value if isinstance(value, list) else [value])
    kind = bench.catalogue.find_type(action)
    assert kind is not None
    return ActionForm(kind, bench.get_situation(), data)


def test_bench_page_is_for_staff_and_human_episodes_only(
    client: Client, human_episode: Episode, caffeine: Experiment
) -> None:
    client.force_login(User.objects.create_user("rater"))
    assert [client.get(url).status_code for url in (bench_url(human_episode), reverse("simulation:new_person"))] == [
        404,
        404,
    ]
    client.force_login(User.objects.get(username="ada"))
    other = create.create_episode_run([caffeine], "offline", 1).episodes.get()
    assert client.get(bench_url(other))["Location"] == reverse("simulation:episode", args=[other.code])


def test_each_transition_model_is_offered_once_and_only_if_available(
    staff_client: Client, lab: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    page = get_text(staff_client.get(reverse("simulation:new_person")))
    assert page.count('class="option__name">offline/rules<') == 1 and 'value="offline" required checked' in page
    assert "ANTHROPIC_API_KEY" in page and page.count('name="cast"') == 1
    wanted = {"experiment": "caffeine-hplc-analysis", "cast": "paper", "submission_id": "0" * 32}
    refused = staff_client.post(reverse("simulation:new_person"), wanted)
    assert refused.status_code == 422 and "ANTHROPIC_API_KEY" in get_text(refused)
    assert staff_client.post(reverse("simulation:new_person"), {**wanted, "cast": "nobody"}).status_code == 422
    assert not Episode.objects.exists()


def test_human_episode_with_a_budget_requires_a_priced_transition_model(
    staff_client: Client, lab: None, model_server: Server
) -> None:
    model_casts.create_cast("dear")
    model_casts.create_cast("unpriced", priced=False, transition_model=model_casts.build_role("free"))
    model_casts.create_priced_model("free", priced=False)
    wanted = {"experiment": "caffeine-hplc-analysis", "submission_id": "0" * 32, "max_cost": "0.50"}
    refused = staff_client.post(reverse("simulation:new_person"), {**wanted, "cast": "unpriced"})
    assert refused.status_code == 422 and "there is no price for free" in get_text(refused)
    staff_client.post(reverse("simulation:new_person"), {**wanted, "cast": "dear"})
    assert str(Run.objects.get().max_cost) == "0.500000"


def test_human_episode_is_created_once_per_submission_and_waits_for_the_person_to_choose(
    staff_client: Client, ada: User, lab: None
) -> None:
    wanted = {"experiment": "caffeine-hplc-analysis", "cast": "offline"}
    episodes = []
    for submission in ("0" * 32, "1" * 32):
        answer = staff_client.post(reverse("simulation:new_person"), {**wanted, "submission_id": submission})
        episodes.append(Episode.objects.latest("pk"))
        assert answer["Location"] == bench_url(episodes[-1])
    cast = people.find_human_cast(ada)
    assert [(one.cast, one.replicate, one.awaits_person) for one in episodes] == [(cast, 1, True), (cast, 2, True)]
    again = staff_client.post(reverse("simulation:new_person"), {**wanted, "submission_id": "1" * 32})
    assert again["Location"] == bench_url(episodes[1]) and Episode.objects.count() == 2, "submitted twice, created once"
    assert run_to_end(episodes[0].run).ended == 0
    begun = get_text(staff_client.get(reverse("simulation:new_person")))
    assert all(f'href="{bench_url(one)}"' in begun for one in episodes)
    control.stop_episode(episodes[0])
    assert bench_url(episodes[0]) not in get_text(staff_client.get(reverse("simulation:new_person")))


def test_bench_page_shows_only_what_an_agent_sees(staff_client: Client, human_episode: Episode) -> None:
    page = get_text(staff_client.get(bench_url(human_episode)))
    assert human_episode.experiment.goal in page and "100 of 100" in page
    for material in benches.build_bench(human_episode).inventory.list_usable():
        assert material.name in page and material.barcode in page
    assert '<optgroup label="Measurement">' in page and "ManifestMaterials" not in page
    assert "ledger" not in page and "rubric" not in page


def test_every_catalogue_action_has_a_form(human_episode: Episode) -> None:
    bench = benches.build_bench(human_episode)
    for kind in bench.catalogue.types.values():
        made = ActionForm(kind, bench.get_situation())
        shown = "".join(str(field) for field in made.parameter_fields)
        wanted = [key for p in kind.parameters for key in (p.keys or {p.name: None})]
        assert len(made.parameter_fields) == len(wanted), kind.name
        assert all(f'name="bench-{p.name}' in shown for p in kind.parameters), kind.name


def test_action_form_works_with_and_without_javascript(staff_client: Client, human_episode: Episode) -> None:
    whole = get_text(staff_client.get(bench_url(human_episode), {"action": "Transfer"}))
    part = get_text(staff_client.get(bench_url(human_episode), {"action": "Transfer"}, headers=HTMX))
    for page in (whole, part):
        assert 'name="bench-amount_number"' in page and "one source and one or more destinations" in page
        assert '<option value="µL" selected>' in page  # the unit of the lowest amount allowed
    assert "<html" in whole and "<html" not in part
    assert "On the bench" in get_text(staff_client.get(bench_url(human_episode), {"action": "Teleport"}, headers=HTMX))


def test_action_form_produces_the_action_an_agent_would_write(human_episode: Episode) -> None:
    coffee, vials = find_barcode(human_episode, "Brewed coffee"), find_barcode(human_episode, "vials")
    made = build_action_form(
        human_episode, "Transfer", materials=[vials], source=coffee, amount_number="1.5", amount_unit="mL",
        mix_before="false", tip_type="standard tip", mix_cycles="",
    )  # fmt: skip
    assert made.is_valid(), made.errors
    # the source counts as selected, and materials are in the order of the bench
    assert made.get_action() == Action(
        "Transfer", (coffee, vials),
        {"source": coffee, "amount": "1.5 mL", "tip_type": "standard tip", "mix_before": "false"},
    )  # fmt: skip


def test_action_form_assembles_objects_and_lists(human_episode: Episode) -> None:
    coffee, tea = find_barcode(human_episode, "Brewed coffee"), find_barcode(human_episode, "Black tea")
    parts = {"detector_voltages.FSC_number": "400", "detector_voltages.FSC_unit": "V"}
    made = build_action_form(human_episode, "FlowCytometry", materials=[coffee], compensation_controls=[tea], **parts)
    assert made.is_valid(), made.errors
    assert made.get_action().parameters == {"compensation_controls": [tea], "detector_voltages": {"FSC": "400 V"}}
    assert set(made.get_action().materials) == {coffee, tea}


def test_action_form_shows_catalogue_errors_at_their_field(human_episode: Episode) -> None:
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
        made = build_action_form(human_episode, action, **written)
        assert not made.is_valid()
        assert told in " ".join(made.errors[field])


def build_impossible_transfer(episode: Episode) -> dict[str, Any]:
    """Return the data of a transfer of more coffee than the catalogue allows."""
    coffee = find_barcode(episode, "Brewed coffee")
    return build_action_data(episode, "Transfer", amount_number="5", amount_unit="L", source=coffee)


def test_refused_action_form_costs_no_step_in_practice_and_keeps_its_input(
    staff_client: Client, practice_episode: Episode
) -> None:
    answer = staff_client.post(bench_url(practice_episode), build_impossible_transfer(practice_episode))
    page = get_text(answer)
    assert answer.status_code == 422 and 'href="#id_bench-amount_0"' in page and 'id="id_bench-amount_0"' in page
    assert 'value="5"' in page and '<option value="L" selected>' in page
    assert "Practice: an action that the catalogue rejects does not use up a step" in page
    practice_episode.refresh_from_db()
    assert (practice_episode.next_number, practice_episode.awaits_person, practice_episode.pending) == (1, True, None)


def test_rejected_actions_of_a_person_cost_steps_and_end_the_episode_after_three(
    staff_client: Client, human_episode: Episode
) -> None:
    for number in (1, 2, 3):
        page = get_text(staff_client.get(bench_url(human_episode), {"action": "Transfer"}))
        assert "A rejected action uses up a step, as for models" in page and f"{101 - number} of 100" in page
        assert staff_client.post(bench_url(human_episode), build_impossible_transfer(human_episode)).status_code == 302
        run_to_end(human_episode.run)
        human_episode.refresh_from_db()
        assert human_episode.next_number == number + 1
    assert human_episode.status == "rejected_out"
    step = human_episode.transitions.first()
    assert step is not None and (step.accepted, step.rejected_by) == (False, "catalogue")
    # What the person wrote is recorded, as it would be for a model.
    assert step.step["action"]["parameters"]["amount"] == "5 L"
    assert "it must be 0.1 µL to 1 L" in step.step["outcome"]["failure_reason"]


def test_people_are_told_apart_by_a_pseudonym_that_stays_and_names_no_account(
    caffeine: Experiment, ada: User, human_episode: Episode
) -> None:
    bob = User.objects.create_user("bob", is_staff=True)
    casts = [create.create_human_episode(caffeine, "offline", user=user).cast for user in (ada, bob, bob)]
    assert casts[0] == human_episode.cast != casts[1] == casts[2]
    assert all(re.fullmatch("human [A-HJ-NP-Z2-9]{6}", cast) for cast in casts)
    numbers = Episode.objects.order_by("pk").values_list("cast", "replicate")
    assert list(numbers) == [(casts[0], 1), (casts[0], 2), (casts[1], 1), (casts[1], 2)]
    # As a source of study items and as a filter, all people are one.
    assert {people.get_source_name(cast) for cast in casts} == {"human"}
    assert Episode.objects.filter(people.build_cast_filter(["human"])).count() == 4
    assert Episode.objects.filter(people.build_cast_filter([casts[1]])).count() == 2


def test_person_has_the_truths_of_agents_and_other_ones_in_practice(
    caffeine: Experiment, human_episode: Episode, practice_episode: Episode
) -> None:
    agents = create.create_episode_run([caffeine], "offline", 1, truths="validation")
    assert (human_episode.replicate, human_episode.run.truths, human_episode.truth_seed) == (1, "validation", 1_000_000)
    assert agents.episodes.get().truth == human_episode.truth != {}
    assert (practice_episode.run.practice, practice_episode.run.truths, practice_episode.truth_seed) == (
        True,
        "train",
        1,
    )


def test_chosen_action_is_played_by_a_worker_and_its_outcome_shown(
    staff_client: Client, human_episode: Episode
) -> None:
    Worker.objects.create(owner="w", kind="embedded")
    data = build_action_data(human_episode, "MeasureVolume", find_barcode(human_episode, "Brewed coffee"))
    assert staff_client.post(bench_url(human_episode), data)["Location"] == bench_url(human_episode)
    assert "computing the outcome" in get_text(staff_client.get(bench_url(human_episode)))
    waiting = staff_client.get(bench_url(human_episode), headers=HTMX)
    assert 'hx-trigger="every 2s"' in get_text(waiting) and "HX-Refresh" not in waiting
    run_to_end(human_episode.run)
    assert staff_client.get(bench_url(human_episode), headers=HTMX)["HX-Refresh"] == "true"
    page = get_text(staff_client.get(bench_url(human_episode)))
    assert "Outcome of step 1" in page and "Step 2: choose an action" in page and "99 of 100" in page
    step = human_episode.transitions.get().step
    assert step["outcome"]["new_observations"][0]["value"] in page
    assert step["outcome"]["reasoning"] not in page  # agents do not see it either
    human_episode.refresh_from_db()
    staff_client.post(
        bench_url(human_episode),
        build_action_data(human_episode, "ImageSample", find_barcode(human_episode, "Black tea")),
    )
    run_to_end(human_episode.run)
    page = get_text(staff_client.get(bench_url(human_episode)))
    history = page[page.index('id="history"') :]
    assert "Outcome of step 2" in page and "MeasureVolume" in history and "ImageSample" not in history


def test_action_submitted_twice_is_played_once(staff_client: Client, human_episode: Episode) -> None:
    data = build_action_data(human_episode, "MeasureVolume", find_barcode(human_episode, "Brewed coffee"))
    staff_client.post(bench_url(human_episode), data)
    again = staff_client.post(bench_url(human_episode), data, follow=True)
    assert "Nothing was done" in get_text(again)
    run_to_end(human_episode.run)
    staff_client.post(bench_url(human_episode), data)
    run_to_end(human_episode.run)
    assert human_episode.transitions.count() == 1


def test_ended_attempt_is_compared_with_the_reference_protocol(staff_client: Client, human_episode: Episode) -> None:
    data = build_action_data(human_episode, "MeasureVolume", find_barcode(human_episode, "Brewed coffee"))
    staff_client.post(bench_url(human_episode), data)
    run_to_end(human_episode.run)
    # Before the end it would show what to do. 19 steps of the protocol, the submission not counted.
    assert "reference protocol" not in get_text(staff_client.get(bench_url(human_episode)))
    Episode.objects.filter(pk=human_episode.pk).update(status="quit", awaits_person=False)
    page = get_text(staff_client.get(bench_url(human_episode)))
    protocol = benches.get_specification(human_episode.experiment).protocol
    assert "MeasureVolume" not in {step["action"] for step in protocol}
    found = compare_with_reference(human_episode, ["MeasureVolume"])
    assert found and found.own == 1 and found.expected == 19 and found.lines[-1] == ("MeasureVolume", 0, 1)
    assert "You took <strong>1</strong> accepted action" in page and 'class="pill">in addition' in page


def test_action_list_has_descriptions_to_filter_by(staff_client: Client, human_episode: Episode) -> None:
    page = get_text(staff_client.get(bench_url(human_episode)))
    assert re.search(r'<option value="MeasureVolume">MeasureVolume: \w+', page) and 'id="action-filter"' in page


def test_other_staff_can_view_a_human_episode_but_not_act(staff_client: Client, human_episode: Episode) -> None:
    data = build_action_data(human_episode, "MeasureVolume", find_barcode(human_episode, "Brewed coffee"))
    staff_client.force_login(User.objects.create_user("eve", is_staff=True))
    page = get_text(staff_client.get(bench_url(human_episode), {"action": "MeasureVolume"}))
    assert "ada is playing this episode" in page and "Perform action" not in page
    staff_client.post(bench_url(human_episode), data)
    human_episode.refresh_from_db()
    assert human_episode.awaits_person


def test_submission_is_judged_and_the_verdict_shown(staff_client: Client, human_episode: Episode) -> None:
    assert "Give up" in get_text(staff_client.get(bench_url(human_episode), {"action": "Quit"}))
    staff_client.post(
        bench_url(human_episode), build_action_data(human_episode, "SubmitMaterialsObservationsForReview")
    )
    run_to_end(human_episode.run)
    human_episode.refresh_from_db()
    assert human_episode.status == "submitted" and not EvidenceReview.objects.get(episode=human_episode).sufficient
    page = get_text(staff_client.get(bench_url(human_episode)))
    assert "not sufficient" in page and "View transcript" in page and ": choose an action" not in page


def test_material_names_are_escaped_on_the_bench_page(staff_client: Client, human_episode: Episode) -> None:
    bad = '<script>alert(1)</script><b id="x">'
    initial = [
        *human_episode.initial,
        {**human_episode.initial[0], "barcode": "MAT-AAAAAAAA", "name": bad, "properties": {bad: bad}},
    ]
    Episode.objects.filter(pk=human_episode.pk).update(initial=initial)
    raw = staff_client.get(bench_url(human_episode), {"action": "Transfer"}).content.decode()
    assert raw.count(bad) == 0 and raw.count(html.escape(bad)) >= 2
