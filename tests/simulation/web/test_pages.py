"""The laboratory's pages, as staff and everyone else meet them."""

import html
import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from simulation.lab.outcomes import Verdict
from simulation.models import Episode, EvidenceReview, Experiment, Run, Transition, Twin, Worker
from simulation.runs import queueing
from tests.support import run_factory
from tests.support.steps import play_out

HTMX = {"HX-Request": "true"}


@pytest.fixture
def staff(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def ordered(caffeine: Experiment) -> Run:
    return queueing.queue_episodes([caffeine], "offline", 2, seed=7)


@pytest.fixture
def played(db: None) -> Episode:
    """One of two episodes of six hand-made steps, submitted and judged."""
    one, _ = (run_factory.episode(replicate=number) for number in (1, 2))
    for number in range(1, 7):
        run_factory.transition(one, number)
    lines = [{"line": "measured", "met": True, "reason": "twice", "route": "direct", "steps": [2]}]
    lines += [{"line": "calibrated", "met": False, "reason": "never", "route": "direct", "steps": []}]
    verdict = Verdict(True, "one of two", 0.9, lines=tuple(lines)).to_json()
    EvidenceReview.objects.create(episode=one, classifier="offline/checklist", sufficient=True, verdict=verdict)
    return one


@pytest.fixture
def really_played(caffeine: Experiment) -> Episode:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=7)
    play_out(run)
    return run.episodes.get()


def text(answer: Any) -> str:
    return str(answer.content.decode())


def order(experiment: Experiment, **changes: Any) -> dict[str, Any]:
    form = {"experiments": [experiment.slug], "cast": "offline", "replicates": 3, "seed": 1}
    return {**form, "submission_id": queueing.new_submission_id(), **changes}


def pages(run: Run) -> list[str]:
    episode = run.episodes.all()[0]
    return [
        reverse("simulation:experiments"),
        reverse("simulation:experiment", args=[episode.experiment.slug]),
        reverse("simulation:actions"),
        reverse("simulation:episodes"),
        reverse("simulation:new_episodes"),
        reverse("simulation:run", args=[run.code]),
        reverse("simulation:episode", args=[episode.code]),
        reverse("simulation:twins"),
    ]


def doors(run: Run) -> list[str]:
    """What changes something: for POST alone."""
    episode = run.episodes.all()[0]
    return [
        reverse("simulation:stop_run", args=[run.code]),
        reverse("simulation:stop_episode", args=[episode.code]),
        reverse("simulation:retry_episode", args=[episode.code]),
        reverse("simulation:retry_twin", args=[uuid4()]),
    ]


def test_strangers_are_sent_to_sign_in(client: Client, ordered: Run) -> None:
    for address in pages(ordered) + doors(ordered):
        for answer in (client.get(address), client.post(address)):
            assert answer.status_code == 302
            assert answer["Location"].startswith(reverse("login"))


def test_for_people_who_are_not_staff_no_page_exists(client: Client, ordered: Run) -> None:
    client.force_login(User.objects.create_user("rater"))
    for address in pages(ordered) + doors(ordered):
        assert client.get(address).status_code == 404
        assert client.post(address).status_code == 404
    assert not ordered.episodes.exclude(status="queued").exists()


def test_what_changes_something_answers_no_get(staff: Client, ordered: Run) -> None:
    assert {staff.get(address).status_code for address in doors(ordered)} == {405}
    assert not ordered.episodes.exclude(status="queued").exists()


def test_every_page_has_a_title_of_its_own(staff: Client, ordered: Run) -> None:
    titles = [re.findall(r"<title>(.*?)</title>", text(staff.get(address)))[0] for address in pages(ordered)]
    assert len(set(titles)) == len(titles)
    assert all(title.endswith("WetBench") for title in titles)


@pytest.mark.django_db
def test_empty_pages_say_what_to_do_first(staff: Client) -> None:
    for name in ("experiments", "actions", "new_episodes"):
        assert "load_lab" in text(staff.get(reverse(f"simulation:{name}")))
    assert "No episodes yet" in text(staff.get(reverse("simulation:episodes")))
    assert "No twins yet" in text(staff.get(reverse("simulation:twins")))


def test_experiments_stand_in_the_order_of_their_groups(staff: Client) -> None:
    for name, group in (("Beta", "Chemistry"), ("Alpha", "Zoology"), ("Gamma", "Chemistry")):
        run_factory.experiment(name.lower(), name=name, group=group)
    page = text(staff.get(reverse("simulation:experiments")))
    assert page.index("Beta") < page.index("Gamma") < page.index("Alpha")


def test_an_experiments_page_shows_its_materials_and_never_its_hidden_truth(
    staff: Client, caffeine: Experiment
) -> None:
    caffeine.data["truth"] = {"LEAKED": "LEAKED"}
    caffeine.sha256 = "2" * 64
    caffeine.save()
    page = text(staff.get(reverse("simulation:experiment", args=[caffeine.slug]) + "?truth=1"))
    assert all(material["name"] in page for material in caffeine.data["materials"][:3])
    assert caffeine.data["protocol"][0]["action"] in page
    assert "LEAKED" not in page


def test_an_experiments_page_shows_its_rubric_by_route_its_shortfalls_and_what_may_be_asked_for(
    staff: Client, caffeine: Experiment
) -> None:
    page = text(staff.get(reverse("simulation:experiment", args=[caffeine.slug])))
    read = html.unescape(page)
    assert all(line["text"] in read for line in caffeine.data["rubric"])
    assert all(entry["name"] in read for entry in caffeine.data["shortfalls"])
    assert all(entry["name"] in read for entry in caffeine.data["manifest"])
    assert caffeine.data["provenance"] in read
    # the blank is needed on either route, so it stands before both of them
    always, *routes = (page.index(f">{head}") for head in ("Always required<", "Alternative: ex", "Alternative: st"))
    assert always < page.index("A water blank") < min(routes)


def test_an_experiment_without_routes_shortfalls_and_list_shows_no_empty_heading(
    staff: Client, caffeine: Experiment
) -> None:
    plain = [{key: line[key] for key in line if key != "route"} for line in caffeine.data["rubric"][:1]]
    caffeine.data |= {"rubric": plain, "shortfalls": [], "manifest": []}
    caffeine.sha256 = "1" * 64  # what a file holds is read once for its hash
    caffeine.save()
    page = text(staff.get(reverse("simulation:experiment", args=[caffeine.slug])))
    assert plain[0]["text"] in html.unescape(page)
    assert not any(
        head in page for head in ("Always required", "Alternative", "Common failures", "Available on request")
    )


def test_the_catalogue_says_what_each_parameter_may_be(staff: Client, lab: None) -> None:
    page = text(staff.get(reverse("simulation:actions")))
    assert "Centrifuge" in page
    assert "quantities computed" in page
    assert "required" in page


def test_an_order_makes_its_episodes_once_however_often_it_is_sent(staff: Client, caffeine: Experiment) -> None:
    form = order(caffeine)
    first, second = (staff.post(reverse("simulation:new_episodes"), form) for _ in range(2))
    assert first["Location"] == second["Location"] == reverse("simulation:run", args=[Run.objects.get().code])
    assert Episode.objects.count() == 3
    assert Run.objects.get().created_by == User.objects.get(username="ada")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"experiments": []}, "Choose at least one experiment."),
        ({"experiments": ["nowhere"]}, "nowhere is not one of the available choices"),
        ({"cast": "nobody"}, "nobody is not one of the available choices"),
        ({"replicates": 101}, "less than or equal to 100"),
        ({"replicates": ""}, "This field is required"),
        ({"seed": -1}, "greater than or equal to 0"),
    ],
)
def test_a_wrong_order_is_shown_again_with_what_was_chosen(
    staff: Client, caffeine: Experiment, wrong: dict[str, Any], said: str
) -> None:
    answer = staff.post(reverse("simulation:new_episodes"), order(caffeine, **{"cast": "offline-lapses", **wrong}))
    assert answer.status_code == 422
    assert said in text(answer)
    if "cast" not in wrong:
        assert 'value="offline-lapses" required checked' in text(answer)
    assert not Run.objects.exists()


def test_choose_all_ticks_every_experiment_and_choose_none_does_not(staff: Client, lab: None) -> None:
    address = reverse("simulation:new_episodes")
    page = text(staff.get(address))
    everything, nothing = (html.unescape(found) for found in re.findall(r'<a href="([^"]*)">Select \w+</a>', page))
    ticked = re.findall(r'name="experiments" value="(.*?)" checked', text(staff.get(everything)))
    assert sorted(ticked) == sorted(Experiment.objects.values_list("slug", flat=True))
    assert 'name="experiments"' in page and " checked" not in re.findall(r"<fieldset.*?</fieldset>", page, re.S)[0]
    assert nothing == address


@pytest.mark.parametrize("asked", [True, False])
def test_agents_may_ask_for_materials_only_in_a_run_ordered_so(
    staff: Client, caffeine: Experiment, asked: bool
) -> None:
    form = order(caffeine, **({"manifest": "on"} if asked else {}))
    answer = staff.post(reverse("simulation:new_episodes"), form, follow=True)
    assert Run.objects.get().manifest is asked
    assert ("excluded from benchmarks" in text(answer)) is asked


def test_a_wrong_order_is_shown_again_with_its_tick_for_more_materials(staff: Client, caffeine: Experiment) -> None:
    ticked = r'<input type="checkbox" name="manifest"[^>]* checked>'
    address = reverse("simulation:new_episodes")
    assert not re.search(ticked, text(staff.get(address)))
    wrong = order(caffeine, manifest="on", replicates=0)
    assert re.search(ticked, text(staff.post(address, wrong)))


def test_the_form_says_how_many_episodes_it_will_make(staff: Client, lab: None) -> None:
    chosen = {"experiments": list(Experiment.objects.values_list("slug", flat=True)[:2]), "replicates": 4}
    answer = text(staff.get(reverse("simulation:new_episodes"), chosen, headers=HTMX))
    # 2 experiments x 4 replicates = 8
    assert "8 episodes" in answer
    assert "<html" not in answer
    nothing = staff.get(reverse("simulation:new_episodes"), {"replicates": "9e9"}, headers=HTMX)
    assert "Choose at least one experiment" in text(nothing)


def test_a_run_is_asked_about_every_two_seconds_and_every_ten_while_no_worker_lives(
    staff: Client, ordered: Run
) -> None:
    address = reverse("simulation:run", args=[ordered.code])
    assert 'hx-trigger="every 10s"' in text(staff.get(address, headers=HTMX))
    Worker.objects.create(owner="here:1:x", kind="embedded")
    assert 'hx-trigger="every 2s"' in text(staff.get(address, headers=HTMX))
    ordered.episodes.filter(replicate=1).update(status="running")
    answer = text(staff.get(address, headers=HTMX))
    assert 'hx-trigger="every 2s"' in answer
    assert "step 1 of" in answer


def test_the_last_fragment_of_a_run_asks_no_more(staff: Client, played: Episode) -> None:
    for address in (
        reverse("simulation:run", args=[played.run.code]),
        reverse("simulation:episode", args=[played.code]),
    ):
        answer = text(staff.get(address, headers=HTMX))
        assert "hx-get" not in answer
        assert "hx-trigger" not in answer
        assert "<html" not in answer
    assert "2 of 2 complete" in text(staff.get(reverse("simulation:run", args=[played.run.code]), headers=HTMX))


def test_without_a_worker_the_page_says_how_to_start_one(staff: Client, ordered: Run) -> None:
    address = reverse("simulation:run", args=[ordered.code])
    assert "No worker is running: start one with <code>make worker</code>" in text(staff.get(address))
    worker = Worker.objects.create(owner="here:1:a", kind="embedded")
    assert "make worker" not in text(staff.get(address))
    Worker.objects.filter(pk=worker.pk).update(seen_at=timezone.now() - timezone.timedelta(minutes=5))
    assert "No heartbeat from a worker for 5 min" in text(staff.get(address))


def test_stop_all_ends_what_waits_and_each_can_be_retried_once(staff: Client, ordered: Run) -> None:
    staff.post(reverse("simulation:stop_run", args=[ordered.code]))
    assert set(ordered.episodes.values_list("status", flat=True)) == {"cancelled"}
    episode = ordered.episodes.get(replicate=1)
    retry = reverse("simulation:retry_episode", args=[episode.code])
    answer = staff.post(retry, {"from": "run"}, follow=True)
    assert "Replicate 1 is queued again" in text(answer)
    assert "retried as" in text(answer)
    answer = staff.post(retry, {"from": "run"}, follow=True)
    assert "only once" in text(answer)
    assert Episode.objects.filter(retry_of=episode).count() == 1


def test_one_episode_is_stopped_from_its_page(staff: Client, ordered: Run) -> None:
    episode = ordered.episodes.get(replicate=2)
    answer = staff.post(reverse("simulation:stop_episode", args=[episode.code]), follow=True)
    assert "Stopped" in text(answer)
    assert answer.redirect_chain[-1][0] == reverse("simulation:episode", args=[episode.code])
    again = staff.post(reverse("simulation:stop_episode", args=[episode.code]), follow=True)
    assert "Stopped" in text(again) and "has already ended" not in text(again)


def test_stopping_an_episode_that_ended_by_itself_says_so(staff: Client, played: Episode) -> None:
    answer = staff.post(reverse("simulation:stop_episode", args=[played.code]), follow=True)

    # A list in a live region, not a list that is one: its items would lose their list.
    assert '<div role="status"><ul class="messages">' in text(answer)
    assert "has already ended" in text(answer)


def test_a_transcript_shows_every_step_under_its_own_anchor(staff: Client, really_played: Episode) -> None:
    page = text(staff.get(reverse("simulation:episode", args=[really_played.code])))
    assert really_played.transitions.count() > 5
    for step in really_played.transitions.all():
        assert f'id="step-{step.number}"' in page
    assert "Submitted" in page
    assert "origins" not in page  # a key of the simulator's ledger


def test_what_a_step_changed_is_shown_and_the_ledger_never(staff: Client, played: Episode) -> None:
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    # the first step turns the sample's 101 mL into 111 mL, makes a tube and leaves the endless buffer alone
    assert re.search(r"101 mL</td><td class=.diff__after.>111 mL", page)
    assert re.search(r"destination</dt> ?<dd>Sample \(MAT-[A-Z0-9]{8}\)", page)
    assert re.search(r'PBS <span class="pill">unchanged', page)
    assert re.search(r'Tube <span class="pill">new', page)
    assert "LEAK-ledger" not in page


def test_a_setting_from_a_closed_list_is_said_in_words(staff: Client, played: Episode) -> None:
    row = played.transitions.get(number=1)
    row.step["action"]["parameters"]["condition"] = "room_temp"
    row.save()

    page = text(staff.get(reverse("simulation:episode", args=[played.code])))

    assert "condition</dt><dd>room temperature</dd>" in page and "room_temp" not in page


def test_the_verdict_names_each_line_and_leads_to_its_steps(staff: Client, played: Episode) -> None:
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    assert re.search(r"Met: </span>measured .*?href=.#step-2", page)
    assert re.search(r"Not met: </span>calibrated", page)
    assert "evidence sufficient" in page


def finding(code: str, severity: str, told: str) -> dict[str, Any]:
    plain = {"decidable": severity != "info", "subject": "Sample", "expected": "", "got": "", "tolerance": ""}
    return {"code": code, "severity": severity, "text": told, **plain}


def report(verdict: str, *findings: dict[str, Any]) -> dict[str, Any]:
    return {"verdict": verdict, "findings": list(findings)}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            report("error", finding("L02", "error", "gains 4 mL")),
            r"1 finding<.*<strong>L02</strong> volume: gains 4 mL",
        ),
        (
            report("error", finding("L02", "error", "gains"), finding("L20", "warning", "says 5 mL")),
            r"2 findings<.*<strong>L20</strong> readings \(warning\): says 5 mL",
        ),
        (
            report("ok", finding("L10", "warning", "a barcode in a name")),
            r"1 warning<.*<strong>L10</strong> barcode in words \(warning\)",
        ),
        (report("ok"), r"no errors found<"),
        (report("ok", finding("L03", "info", "unknown")), r"no errors found<.*1 check could not be decided"),
        (report("undecidable", *(finding("L03", "info", "x"),) * 2), r"no quantities to check<.*2 checks could not"),
    ],
)
def test_what_the_checker_found_stands_under_its_step(
    staff: Client, played: Episode, found: dict[str, Any], said: str
) -> None:
    played.transitions.filter(number=2).update(findings=found)
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    steps = page.split('id="step-')
    assert "Checker:" not in steps[1] and "Checker:" in page
    assert re.search(said, page, re.S)
    assert page.count("Checker:") == 1


def test_a_finding_quotes_the_simulator_as_text(staff: Client, played: Episode) -> None:
    told = "<script>alert(1)</script> is no unit"
    played.transitions.filter(number=1).update(findings=report("error", finding("L12", "error", told)))
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page


def test_each_steps_badge_says_how_far_it_was_followed(staff: Client, really_played: Episode) -> None:
    page = text(staff.get(reverse("simulation:episode", args=[really_played.code])))
    articles = re.findall(r"<article.*?</article>", page, re.S)
    wanted = [step.step["outcome"]["fidelity"] for step in really_played.transitions.order_by("number")]
    assert set(wanted) >= {"quantities computed", "state tracked", "bookkeeping only"}
    for article, badge in zip(articles, wanted, strict=True):
        assert re.search(rf'<span class="pill[^"]*">{badge}</span>', article)


def test_hostile_text_of_a_step_is_shown_as_text(staff: Client, played: Episode) -> None:
    hostile = "<script>alert(1)</script>{{ 7|add:7 }}"
    row = played.transitions.order_by("number")[0]
    row.step["outcome"]["new_observations"] = [{"description": hostile, "measurement_type": hostile, "value": hostile}]
    row.step["outcome"]["reasoning"] = hostile
    row.step["action"]["parameters"] = {hostile: hostile}
    for draft in row.step["outcome"]["new_materials"]:
        draft["name"], draft["properties"] = hostile, {hostile: hostile}
    row.save()
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "{{ 7|add:7 }}" in page


@pytest.mark.parametrize(
    ("by", "said"),
    [("catalogue", "The action catalogue rejected it"), ("transition_model", "The transition model rejected it")],
)
def test_a_rejected_step_says_who_rejected_it_and_why(staff: Client, played: Episode, by: str, said: str) -> None:
    row = played.transitions.order_by("number")[0]
    row.accepted, row.rejected_by = False, by
    row.step["outcome"] |= {
        "success": False,
        "failure_reason": "no room <in> it",
        "new_materials": [],
        "rejected_by": by,
    }
    row.step["barcodes"] = []
    row.save()
    page = text(staff.get(reverse("simulation:episode", args=[played.code])))
    assert said in page
    assert "no room &lt;in&gt; it" in page


def test_the_head_of_a_playing_episode_tells_of_new_steps(staff: Client, played: Episode) -> None:
    Episode.objects.filter(pk=played.pk).update(status="running", next_number=7)
    address = reverse("simulation:episode", args=[played.code])
    steps = played.transitions.count()
    answer = text(staff.get(address, {"shown": steps - 1}, headers=HTMX))
    assert f"The episode now has {steps} steps; this page shows {steps - 1}" in answer
    assert f"?shown={steps - 1}" in answer
    assert "Show new steps" not in text(staff.get(address))


def test_the_head_of_an_episode_that_ended_leads_to_its_verdict(staff: Client, played: Episode) -> None:
    steps = played.next_number - 1
    address = reverse("simulation:episode", args=[played.code])

    fragment = text(staff.get(f"{address}?shown={steps}", headers=HTMX))

    assert "The episode ended while this page was open." in fragment and f'href="{address}"' in fragment
    assert "ended while" not in text(staff.get(address))


def test_twins_are_ordered_once_and_explained_to_staff(
    staff: Client, really_played: Episode, caffeine: Experiment
) -> None:
    form = order(caffeine, error="obvious", per_transition=1)
    first, second = (staff.post(reverse("simulation:twins"), form) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert Twin.objects.count() == Transition.objects.filter(accepted=True).count()
    play_out(Run.objects.get(kind="twins"))
    twin = Twin.objects.filter(status="done")[0]
    page = staff.get(reverse("simulation:twins"), {"step": str(twin.transition.code)})
    shown = list(page.context["page"])
    assert shown == [twin]
    assert twin.field in text(page)
    assert f">{twin.outcome['fidelity']}</span>" in text(page)
    assert re.search(r"<dt>checker</dt><dd>(no errors found|reports L\d\d)", text(page))
    assert "obvious (done)" in text(staff.get(reverse("simulation:episode", args=[twin.transition.episode.code])))


def test_twins_of_an_experiment_without_steps_are_refused(staff: Client, caffeine: Experiment) -> None:
    answer = staff.post(reverse("simulation:twins"), order(caffeine, error="both", per_transition=1))
    assert answer.status_code == 422
    assert "Run episodes first" in text(answer)


def test_a_failed_twin_is_queued_again(staff: Client, played: Episode) -> None:
    run = queueing.queue_twins(played.transitions.filter(number=1), ["subtle"], seed=1)
    run.twins.update(status="failed", error="no injector fits")
    assert "no injector fits" in text(staff.get(reverse("simulation:run", args=[run.code])))
    staff.post(reverse("simulation:retry_twin", args=[run.twins.get().code]))
    assert run.twins.get().status == "queued"


def test_filters_stay_in_the_address_from_page_to_page(staff: Client, caffeine: Experiment) -> None:
    queueing.queue_episodes([caffeine], "offline-lapses", 60, seed=1)
    queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    chosen = {"experiment": caffeine.slug, "cast": "offline-lapses", "status": "queued"}
    answer = staff.get(reverse("simulation:episodes"), chosen)
    assert "60 episodes" in text(answer)
    link = re.findall(r'rel="next" href="(.*?)"', text(answer))[0].replace("&amp;", "&")
    second = staff.get(reverse("simulation:episodes") + link)
    # 60 episodes at 50 a page leave 10
    assert len(second.context["lines"]) == 10
    assert "No episodes match" in text(staff.get(reverse("simulation:episodes"), {"status": "failed"}))


def test_unknown_filters_are_ignored(staff: Client, ordered: Run) -> None:
    answer = staff.get(reverse("simulation:episodes"), {"status": "?", "experiment": "nowhere", "page": "x"})
    assert len(answer.context["lines"]) == 2


def test_every_list_takes_as_many_queries_for_twenty_rows_as_for_ten(staff: Client, caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 10, seed=1)
    addresses = [
        reverse("simulation:episodes"),
        reverse("simulation:experiments"),
        reverse("simulation:run", args=[run.code]),
    ]
    before = [queries(staff, address) for address in addresses]
    queueing.queue_episodes([caffeine], "offline", 10, seed=2).episodes.update(run=run)
    run.episodes.filter(replicate=20).update(status="failed", reason="internal", error="x")
    queueing.retry(run.episodes.get(replicate=20))
    assert [queries(staff, address) for address in addresses] == before


def test_a_transcript_and_a_list_of_twins_take_as_many_queries_for_twenty_rows_as_for_ten(
    staff: Client, played: Episode
) -> None:
    address, twins = reverse("simulation:episode", args=[played.code]), reverse("simulation:twins")
    for number in range(7, 11):
        run_factory.transition(played, number)
    for step in played.transitions.all():
        run_factory.twin(step, "obvious")
    staff.get(twins)  # the first order form of all stores the built-in prompt set
    before = queries(staff, address), queries(staff, twins)
    for number in range(11, 21):
        run_factory.twin(run_factory.transition(played, number), "subtle")
    assert (queries(staff, address), queries(staff, twins)) == before


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)


def test_superusers_look_at_rows_in_the_admin_and_change_none(client: Client, played: Episode) -> None:
    client.force_login(User.objects.create_superuser("root"))
    for name in ("experiment", "catalogueentry", "run", "episode", "transition", "evidencereview", "twin", "worker"):
        assert client.get(reverse(f"admin:simulation_{name}_changelist")).status_code == 200
        assert client.get(reverse(f"admin:simulation_{name}_add")).status_code == 403
    row = reverse("admin:simulation_episode_change", args=[played.pk])
    assert client.get(row).status_code == 200
    assert client.post(row, {"status": "queued"}).status_code == 403
