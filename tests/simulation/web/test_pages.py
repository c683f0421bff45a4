"""Pages of the laboratory for staff, raters and anonymous visitors."""

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
from simulation.runs import create
from tests.support import run_factory
from tests.support.steps import run_to_end

HTMX = {"HX-Request": "true"}


@pytest.fixture
def staff_client(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


@pytest.fixture
def queued_run(caffeine: Experiment) -> Run:
    return create.create_episode_run([caffeine], "offline", 2, seed=7)


@pytest.fixture
def played_episode(db: None) -> Episode:
    """Return one of two episodes: six hand-made steps, submitted and judged."""
    one, _ = (run_factory.create_episode(replicate=number) for number in (1, 2))
    for number in range(1, 7):
        run_factory.create_transition(one, number)
    lines = [{"line": "measured", "met": True, "reason": "twice", "route": "direct", "steps": [2]}]
    lines += [{"line": "calibrated", "met": False, "reason": "never", "route": "direct", "steps": []}]
    verdict = Verdict(True, "one of two", 0.9, lines=tuple(lines)).to_json()
    EvidenceReview.objects.create(episode=one, classifier="offline/checklist", sufficient=True, verdict=verdict)
    return one


@pytest.fixture
def simulated_episode(caffeine: Experiment) -> Episode:
    run = create.create_episode_run([caffeine], "offline", 1, seed=7)
    run_to_end(run)
    return run.episodes.get()


def get_text(answer: Any) -> str:
    return str(answer.content.decode())


def build_form_data(experiment: Experiment, **changes: Any) -> dict[str, Any]:
    form = {"experiments": [experiment.slug], "cast": "offline", "replicates": 3, "seed": 1}
    return {**form, "submission_id": create.create_submission_id(), **changes}


def list_page_urls(run: Run) -> list[str]:
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
        reverse("simulation:new_twins"),
        reverse("simulation:runs"),
    ]


def list_action_urls(run: Run) -> list[str]:
    """Return the URLs of actions, which accept only POST."""
    episode = run.episodes.all()[0]
    return [
        reverse("simulation:stop_run", args=[run.code]),
        reverse("simulation:stop_episode", args=[episode.code]),
        reverse("simulation:retry_episode", args=[episode.code]),
        reverse("simulation:retry_twin", args=[uuid4()]),
        reverse("simulation:act_on_episodes"),
        reverse("simulation:act_on_runs"),
    ]


def test_anonymous_visitors_are_sent_to_sign_in(client: Client, queued_run: Run) -> None:
    for address in list_page_urls(queued_run) + list_action_urls(queued_run):
        for answer in (client.get(address), client.post(address)):
            assert answer.status_code == 302
            assert answer["Location"].startswith(reverse("login"))


def test_laboratory_pages_are_404_for_raters(client: Client, queued_run: Run) -> None:
    client.force_login(User.objects.create_user("rater"))
    for address in list_page_urls(queued_run) + list_action_urls(queued_run):
        assert client.get(address).status_code == 404
        assert client.post(address).status_code == 404
    assert not queued_run.episodes.exclude(status="queued").exists()


def test_action_urls_refuse_get(staff_client: Client, queued_run: Run) -> None:
    assert {staff_client.get(address).status_code for address in list_action_urls(queued_run)} == {405}
    assert not queued_run.episodes.exclude(status="queued").exists()


def test_every_page_has_a_unique_title(staff_client: Client, queued_run: Run) -> None:
    titles = [
        re.findall(r"<title>(.*?)</title>", get_text(staff_client.get(address)))[0]
        for address in list_page_urls(queued_run)
    ]
    assert len(set(titles)) == len(titles)
    assert all(title.endswith("WetBench") for title in titles)


@pytest.mark.django_db
def test_empty_pages_show_what_to_do_first(staff_client: Client) -> None:
    for name in ("experiments", "actions", "new_episodes"):
        assert "load_lab" in get_text(staff_client.get(reverse(f"simulation:{name}")))
    assert "No episodes yet" in get_text(staff_client.get(reverse("simulation:episodes")))
    assert "No twins yet" in get_text(staff_client.get(reverse("simulation:twins")))


def test_experiments_are_ordered_by_group(staff_client: Client) -> None:
    for name, group in (("Beta", "Chemistry"), ("Alpha", "Zoology"), ("Gamma", "Chemistry")):
        run_factory.create_experiment(name.lower(), name=name, group=group)
    page = get_text(staff_client.get(reverse("simulation:experiments")))
    assert page.index("Beta") < page.index("Gamma") < page.index("Alpha")


def test_experiment_page_shows_materials_and_never_the_hidden_truth(staff_client: Client, caffeine: Experiment) -> None:
    caffeine.data["truth"] = {"LEAKED": "LEAKED"}
    caffeine.sha256 = "2" * 64
    caffeine.save()
    page = get_text(staff_client.get(reverse("simulation:experiment", args=[caffeine.slug]) + "?truth=1"))
    assert all(material["name"] in page for material in caffeine.data["materials"][:3])
    assert caffeine.data["protocol"][0]["action"] in page
    assert "LEAKED" not in page


def test_experiment_page_shows_rubric_by_route_variants_and_manifest(
    staff_client: Client, caffeine: Experiment
) -> None:
    page = get_text(staff_client.get(reverse("simulation:experiment", args=[caffeine.slug])))
    read = html.unescape(page)
    assert all(line["text"] in read for line in caffeine.data["rubric"])
    assert all(entry["name"] in read for entry in caffeine.data["variants"])
    assert all(entry["name"] in read for entry in caffeine.data["manifest"])
    assert caffeine.data["provenance"] in read
    # the blank is needed on either route, so it is listed before both
    always, *routes = (page.index(f">{head}") for head in ("Always required<", "Alternative: ex", "Alternative: st"))
    assert always < page.index("A water blank") < min(routes)


def test_experiment_page_omits_empty_sections(staff_client: Client, caffeine: Experiment) -> None:
    plain = [{key: line[key] for key in line if key != "route"} for line in caffeine.data["rubric"][:1]]
    caffeine.data |= {"rubric": plain, "variants": [], "manifest": []}
    # Parsed experiment files are cached by hash; other tests in this process use "1" * 64 for another content.
    caffeine.sha256 = "0a5c" * 16
    caffeine.save()
    page = get_text(staff_client.get(reverse("simulation:experiment", args=[caffeine.slug])))
    assert plain[0]["text"] in html.unescape(page)
    assert not any(
        head in page for head in ("Always required", "Alternative", "Common failures", "Available on request")
    )


def test_catalogue_page_describes_the_parameters(staff_client: Client, lab: None) -> None:
    page = get_text(staff_client.get(reverse("simulation:actions")))
    assert "Centrifuge" in page
    assert "quantities computed" in page
    assert "required" in page


def test_run_form_submitted_twice_creates_its_episodes_once(staff_client: Client, caffeine: Experiment) -> None:
    form = build_form_data(caffeine)
    first, second = (staff_client.post(reverse("simulation:new_episodes"), form) for _ in range(2))
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
def test_invalid_run_form_is_shown_again_with_the_choices(
    staff_client: Client, caffeine: Experiment, wrong: dict[str, Any], said: str
) -> None:
    answer = staff_client.post(
        reverse("simulation:new_episodes"), build_form_data(caffeine, **{"cast": "offline-lapses", **wrong})
    )
    assert answer.status_code == 422
    assert said in get_text(answer)
    if "cast" not in wrong:
        assert 'value="offline-lapses" required checked' in get_text(answer)
    assert not Run.objects.exists()


@pytest.mark.parametrize("name", ["new_episodes", "new_twins"])
def test_selecting_all_or_no_experiments_keeps_everything_typed_and_starts_nothing(
    staff_client: Client, lab: None, name: str
) -> None:
    address = reverse(f"simulation:{name}")
    typed = {"cast": "offline-lapses", "seed": "12x", "max_cost": "2.5", "submission_id": "a" * 32}
    for choice, expected in (("all", sorted(Experiment.objects.values_list("slug", flat=True))), ("none", [])):
        answer = staff_client.post(address, {**typed, "experiments": ["caffeine-hplc-analysis"], "select": choice})
        page = get_text(answer)
        assert sorted(re.findall(r'name="experiments" value="(.*?)" checked', page)) == expected
        assert answer.status_code == 200 and "Enter a whole number" not in page  # nothing is checked yet
        assert all(f'value="{value}"' in page for value in ("12x", "2.5", "a" * 32))
        assert 'value="offline-lapses" required checked' in page
    assert not Run.objects.exists()


@pytest.mark.parametrize("name", ["new_episodes", "new_twins"])
def test_enter_in_a_run_form_presses_the_button_that_starts_it(staff_client: Client, lab: None, name: str) -> None:
    page = get_text(staff_client.get(reverse(f"simulation:{name}")))
    form = page[page.index('class="card order"') :]
    assert " name=" not in re.findall(r"<button[^>]*>", form)[0]  # the first submit button of a form is its default


@pytest.mark.parametrize("asked", [True, False])
def test_manifest_option_is_stored_and_marks_the_run_as_no_benchmark(
    staff_client: Client, caffeine: Experiment, asked: bool
) -> None:
    form = build_form_data(caffeine, **({"manifest": "on"} if asked else {}))
    answer = staff_client.post(reverse("simulation:new_episodes"), form, follow=True)
    assert Run.objects.get().manifest is asked
    assert ("excluded from benchmarks" in get_text(answer)) is asked


def test_invalid_run_form_keeps_the_manifest_checkbox(staff_client: Client, caffeine: Experiment) -> None:
    ticked = r'<input type="checkbox" name="manifest"[^>]* checked>'
    address = reverse("simulation:new_episodes")
    assert not re.search(ticked, get_text(staff_client.get(address)))
    wrong = build_form_data(caffeine, manifest="on", replicates=0)
    assert re.search(ticked, get_text(staff_client.post(address, wrong)))


def test_run_form_shows_the_number_of_episodes(staff_client: Client, lab: None) -> None:
    chosen = {"experiments": list(Experiment.objects.values_list("slug", flat=True)[:2]), "replicates": 4}
    answer = get_text(staff_client.get(reverse("simulation:new_episodes"), chosen, headers=HTMX))
    # 2 experiments x 4 replicates = 8
    assert "8 episodes" in answer
    assert "<html" not in answer
    nothing = staff_client.get(reverse("simulation:new_episodes"), {"replicates": "9e9"}, headers=HTMX)
    assert "Choose at least one experiment" in get_text(nothing)


def test_run_page_polls_every_two_seconds_or_every_ten_without_a_worker(staff_client: Client, queued_run: Run) -> None:
    address = reverse("simulation:run", args=[queued_run.code])
    assert 'hx-trigger="every 10s"' in get_text(staff_client.get(address, headers=HTMX))
    Worker.objects.create(owner="here:1:x", kind="embedded")
    assert 'hx-trigger="every 2s"' in get_text(staff_client.get(address, headers=HTMX))
    queued_run.episodes.filter(replicate=1).update(status="running")
    answer = get_text(staff_client.get(address, headers=HTMX))
    assert 'hx-trigger="every 2s"' in answer
    assert "step 1 of" in answer


def test_finished_run_and_episode_pages_stop_polling(staff_client: Client, played_episode: Episode) -> None:
    for address in (
        reverse("simulation:run", args=[played_episode.run.code]),
        reverse("simulation:episode", args=[played_episode.code]),
    ):
        answer = get_text(staff_client.get(address, headers=HTMX))
        assert "hx-get" not in answer
        assert "hx-trigger" not in answer
        assert "<html" not in answer
    assert "2 of 2 complete" in get_text(
        staff_client.get(reverse("simulation:run", args=[played_episode.run.code]), headers=HTMX)
    )


def test_run_page_without_a_worker_shows_how_to_start_one(staff_client: Client, queued_run: Run) -> None:
    address = reverse("simulation:run", args=[queued_run.code])
    assert "No worker is running: start one with <code>make worker</code>" in get_text(staff_client.get(address))
    worker = Worker.objects.create(owner="here:1:a", kind="embedded")
    assert "make worker" not in get_text(staff_client.get(address))
    Worker.objects.filter(pk=worker.pk).update(seen_at=timezone.now() - timezone.timedelta(minutes=5))
    assert "No heartbeat from a worker for 5 min" in get_text(staff_client.get(address))


def test_stop_all_ends_queued_episodes_and_each_can_be_retried_once(staff_client: Client, queued_run: Run) -> None:
    staff_client.post(reverse("simulation:stop_run", args=[queued_run.code]))
    assert set(queued_run.episodes.values_list("status", flat=True)) == {"cancelled"}
    episode = queued_run.episodes.get(replicate=1)
    retry = reverse("simulation:retry_episode", args=[episode.code])
    answer = staff_client.post(retry, {"from": "run"}, follow=True)
    assert "Replicate 1 is queued again" in get_text(answer)
    assert "retried as" in get_text(answer)
    answer = staff_client.post(retry, {"from": "run"}, follow=True)
    assert "only once" in get_text(answer)
    assert Episode.objects.filter(retry_of=episode).count() == 1


def test_episode_can_be_stopped_from_its_page(staff_client: Client, queued_run: Run) -> None:
    episode = queued_run.episodes.get(replicate=2)
    answer = staff_client.post(reverse("simulation:stop_episode", args=[episode.code]), follow=True)
    assert "Stopped" in get_text(answer)
    assert answer.redirect_chain[-1][0] == reverse("simulation:episode", args=[episode.code])
    again = staff_client.post(reverse("simulation:stop_episode", args=[episode.code]), follow=True)
    assert "Stopped" in get_text(again) and "has already ended" not in get_text(again)


def test_stopping_a_finished_episode_shows_a_message(staff_client: Client, played_episode: Episode) -> None:
    answer = staff_client.post(reverse("simulation:stop_episode", args=[played_episode.code]), follow=True)

    # The list is inside the live region: a list with role=status would lose its list semantics.
    assert '<div role="status"><ul class="messages">' in get_text(answer)
    assert "has already ended" in get_text(answer)


def test_transcript_shows_every_step_with_its_anchor(staff_client: Client, simulated_episode: Episode) -> None:
    page = get_text(staff_client.get(reverse("simulation:episode", args=[simulated_episode.code])))
    assert simulated_episode.transitions.count() > 5
    for step in simulated_episode.transitions.all():
        assert f'id="step-{step.number}"' in page
    assert "Submitted" in page
    assert "origins" not in page  # a key of the simulator's ledger


def test_transcript_shows_changes_and_never_the_ledger(staff_client: Client, played_episode: Episode) -> None:
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    # the first step turns the sample's 101 mL into 111 mL, creates a tube and leaves the unlimited buffer unchanged
    assert re.search(r"101 mL</td><td class=.diff__after.>111 mL", page)
    assert re.search(r"destination</dt> ?<dd>Sample \(MAT-[A-Z0-9]{8}\)", page)
    assert re.search(r'PBS <span class="pill">unchanged', page)
    assert re.search(r'Tube <span class="pill">new', page)
    assert "LEAK-ledger" not in page


def test_transcript_shows_enumerated_settings_in_words(staff_client: Client, played_episode: Episode) -> None:
    row = played_episode.transitions.get(number=1)
    row.step["action"]["parameters"]["condition"] = "room_temp"
    row.save()

    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))

    assert "condition</dt><dd>room temperature</dd>" in page and "room_temp" not in page


def test_verdict_lists_each_rubric_line_with_links_to_its_steps(staff_client: Client, played_episode: Episode) -> None:
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    assert re.search(r"Met: </span>measured .*?href=.#step-2", page)
    assert re.search(r"Not met: </span>calibrated", page)
    assert "evidence sufficient" in page


def build_finding(code: str, severity: str, told: str) -> dict[str, Any]:
    plain = {"decidable": severity != "info", "subject": "Sample", "expected": "", "got": "", "tolerance": ""}
    return {"code": code, "severity": severity, "text": told, **plain}


def build_report(verdict: str, *findings: dict[str, Any]) -> dict[str, Any]:
    return {"verdict": verdict, "findings": list(findings)}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            build_report("error", build_finding("L02", "error", "gains 4 mL")),
            r"1 finding<.*<strong>L02</strong> volume balance: gains 4 mL",
        ),
        (
            build_report("error", build_finding("L02", "error", "gains"), build_finding("L20", "warning", "says 5 mL")),
            r"2 findings<.*<strong>L20</strong> agreement of readings \(warning\): says 5 mL",
        ),
        (
            build_report("ok", build_finding("L10", "warning", "a barcode in a name")),
            r"1 warning<.*<strong>L10</strong> barcode in a text \(warning\)",
        ),
        (build_report("ok"), r"no errors found<"),
        (
            build_report("ok", build_finding("L03", "info", "unknown")),
            r"no errors found<.*1 check could not be decided",
        ),
        (
            build_report("undecidable", *(build_finding("L03", "info", "x"),) * 2),
            r"no quantities to check<.*2 checks could not",
        ),
    ],
)
def test_checker_findings_are_shown_at_their_step(
    staff_client: Client, played_episode: Episode, found: dict[str, Any], said: str
) -> None:
    played_episode.transitions.filter(number=2).update(findings=found)
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    steps = page.split('id="step-')
    assert "Checker:" not in steps[1] and "Checker:" in page
    assert re.search(said, page, re.S)
    assert page.count("Checker:") == 1


def test_checker_finding_text_is_escaped(staff_client: Client, played_episode: Episode) -> None:
    told = "<script>alert(1)</script> is no unit"
    played_episode.transitions.filter(number=1).update(
        findings=build_report("error", build_finding("L12", "error", told))
    )
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page


def test_each_step_shows_its_fidelity(staff_client: Client, simulated_episode: Episode) -> None:
    page = get_text(staff_client.get(reverse("simulation:episode", args=[simulated_episode.code])))
    articles = re.findall(r"<article.*?</article>", page, re.S)
    wanted = [step.step["outcome"]["fidelity"] for step in simulated_episode.transitions.order_by("number")]
    assert set(wanted) >= {"quantities computed", "state tracked", "declared readings"}
    for article, badge in zip(articles, wanted, strict=True):
        assert re.search(rf'<span class="pill[^"]*">{badge}</span>', article)


def test_hostile_step_text_is_escaped(staff_client: Client, played_episode: Episode) -> None:
    hostile = "<script>alert(1)</script>{{ 7|add:7 }}"
    row = played_episode.transitions.order_by("number")[0]
    row.step["outcome"]["new_observations"] = [{"description": hostile, "measurement_type": hostile, "value": hostile}]
    row.step["outcome"]["reasoning"] = hostile
    row.step["action"]["parameters"] = {hostile: hostile}
    for draft in row.step["outcome"]["new_materials"]:
        draft["name"], draft["properties"] = hostile, {hostile: hostile}
    row.save()
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "{{ 7|add:7 }}" in page


@pytest.mark.parametrize(
    ("by", "said"),
    [("catalogue", "The action catalogue rejected it"), ("transition_model", "The transition model rejected it")],
)
def test_rejected_step_shows_who_rejected_it_and_why(
    staff_client: Client, played_episode: Episode, by: str, said: str
) -> None:
    row = played_episode.transitions.order_by("number")[0]
    row.accepted, row.rejected_by = False, by
    row.step["outcome"] |= {
        "success": False,
        "failure_reason": "no room <in> it",
        "new_materials": [],
        "rejected_by": by,
    }
    row.step["barcodes"] = []
    row.save()
    page = get_text(staff_client.get(reverse("simulation:episode", args=[played_episode.code])))
    assert said in page
    assert "no room &lt;in&gt; it" in page


def test_running_episode_page_announces_new_steps(staff_client: Client, played_episode: Episode) -> None:
    Episode.objects.filter(pk=played_episode.pk).update(status="running", next_number=7)
    address = reverse("simulation:episode", args=[played_episode.code])
    steps = played_episode.transitions.count()
    answer = get_text(staff_client.get(address, {"shown": steps - 1}, headers=HTMX))
    assert f"The episode now has {steps} steps; this page shows {steps - 1}" in answer
    assert f"?shown={steps - 1}" in answer
    assert "Show new steps" not in get_text(staff_client.get(address))


def test_episode_page_that_is_open_when_the_episode_ends_links_to_the_verdict(
    staff_client: Client, played_episode: Episode
) -> None:
    steps = played_episode.next_number - 1
    address = reverse("simulation:episode", args=[played_episode.code])

    fragment = get_text(staff_client.get(f"{address}?shown={steps}", headers=HTMX))

    assert "The episode ended while this page was open." in fragment and f'href="{address}"' in fragment
    assert "ended while" not in get_text(staff_client.get(address))


def test_twins_form_submitted_twice_creates_twins_once_and_lists_them(
    staff_client: Client, simulated_episode: Episode, caffeine: Experiment
) -> None:
    form = build_form_data(caffeine, error="obvious", per_transition=1)
    first, second = (staff_client.post(reverse("simulation:new_twins"), form) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert Twin.objects.count() == Transition.objects.filter(accepted=True).count()
    run_to_end(Run.objects.get(kind="twins"))
    twin = Twin.objects.filter(status="done")[0]
    page = staff_client.get(reverse("simulation:twins"), {"step": str(twin.transition.code)})
    shown = list(page.context["page"])
    assert shown == [twin]
    assert twin.explanation in html.unescape(get_text(page))
    assert f">{twin.outcome['fidelity']}</span>" in get_text(page)
    assert re.search(r'data-label="Checker">\s*<span>(no error|reports L\d\d)', get_text(page))
    assert "obvious (done)" in get_text(
        staff_client.get(reverse("simulation:episode", args=[twin.transition.episode.code]))
    )


def test_twins_of_an_experiment_without_steps_are_refused(staff_client: Client, caffeine: Experiment) -> None:
    answer = staff_client.post(
        reverse("simulation:new_twins"), build_form_data(caffeine, error="both", per_transition=1)
    )
    assert answer.status_code == 422
    assert "Run episodes first" in get_text(answer)


def test_failed_twin_can_be_queued_again(staff_client: Client, played_episode: Episode) -> None:
    run = create.create_twin_run(played_episode.transitions.filter(number=1), ["subtle"], seed=1)
    run.twins.update(status="failed", error="no injector fits")
    assert "no injector fits" in get_text(staff_client.get(reverse("simulation:run", args=[run.code])))
    staff_client.post(reverse("simulation:retry_twin", args=[run.twins.get().code]))
    assert run.twins.get().status == "queued"


def test_filters_are_kept_in_pagination_links(staff_client: Client, caffeine: Experiment) -> None:
    create.create_episode_run([caffeine], "offline-lapses", 60, seed=1)
    create.create_episode_run([caffeine], "offline", 1, seed=1)
    chosen = {"experiment": caffeine.slug, "cast": "offline-lapses", "status": "queued"}
    answer = staff_client.get(reverse("simulation:episodes"), chosen)
    assert "60 episodes" in get_text(answer)
    link = re.findall(r'rel="next" href="(.*?)"', get_text(answer))[0].replace("&amp;", "&")
    second = staff_client.get(reverse("simulation:episodes") + link)
    # 60 episodes at 50 a page leave 10
    assert len(second.context["lines"]) == 10
    assert "No episodes match" in get_text(staff_client.get(reverse("simulation:episodes"), {"status": "failed"}))


def test_unknown_filters_are_ignored(staff_client: Client, queued_run: Run) -> None:
    answer = staff_client.get(reverse("simulation:episodes"), {"status": "?", "experiment": "nowhere", "page": "x"})
    assert len(answer.context["lines"]) == 2


def test_lists_use_the_same_queries_for_ten_and_twenty_rows(staff_client: Client, caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 10, seed=1)
    addresses = [
        reverse("simulation:episodes"),
        reverse("simulation:experiments"),
        reverse("simulation:run", args=[run.code]),
    ]
    before = [count_queries(staff_client, address) for address in addresses]
    create.create_episode_run([caffeine], "offline", 10, seed=2).episodes.update(run=run)
    run.episodes.filter(replicate=20).update(status="failed", reason="internal", error="x")
    create.retry_episode(run.episodes.get(replicate=20))
    assert [count_queries(staff_client, address) for address in addresses] == before


def test_transcript_and_twin_list_use_the_same_queries_for_ten_and_twenty_rows(
    staff_client: Client, played_episode: Episode
) -> None:
    address, twins = reverse("simulation:episode", args=[played_episode.code]), reverse("simulation:twins")
    for number in range(7, 11):
        run_factory.create_transition(played_episode, number)
    for step in played_episode.transitions.all():
        run_factory.create_twin(step, "obvious")
    before = count_queries(staff_client, address), count_queries(staff_client, twins)
    for number in range(11, 21):
        run_factory.create_twin(run_factory.create_transition(played_episode, number), "subtle")
    assert (count_queries(staff_client, address), count_queries(staff_client, twins)) == before


def count_queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)


def test_admin_site_is_read_only_for_superusers(client: Client, played_episode: Episode) -> None:
    client.force_login(User.objects.create_superuser("root"))
    for name in ("experiment", "catalogueentry", "run", "episode", "transition", "evidencereview", "twin", "worker"):
        assert client.get(reverse(f"admin:simulation_{name}_changelist")).status_code == 200
        assert client.get(reverse(f"admin:simulation_{name}_add")).status_code == 403
    row = reverse("admin:simulation_episode_change", args=[played_episode.pk])
    assert client.get(row).status_code == 200
    assert client.post(row, {"status": "queued"}).status_code == 403
