"""Crossover studies: two conditions, two sessions, a washout in between; versions of one pair never in one session."""

import json
import uuid
from collections import Counter, defaultdict
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.exchange import exports
from ratings.exchange.archive import contents
from ratings.exchange.imports import rating_imports
from ratings.models import Assignment, Rater, Rating, Study
from ratings.protocol import PlanError, ProtocolError, draw_items
from ratings.protocol.plan_types import Candidate
from ratings.raters import practice, simulated_raters
from ratings.rating import next_item, submit
from ratings.results.analyses import document as results
from ratings.results.analyses import rating_columns
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.studies import StudyError, designs, lifecycle, reassign, running_raters
from ratings.studies.blinding_audit import audit_runner, order_tests
from simulation.casts.run_config import RULE_BASED_CASTS
from simulation.models import Transition
from tests.support import run_factory, study_factory, study_log_texts
from wetbench_site.maintenance.verify import rating_checks

pytestmark = [pytest.mark.django_db]
OTHER = next(cast for cast in RULE_BASED_CASTS if cast != "offline")
TWINS = [
    {"cast": "offline", "perturbation": "none", "count": 8},
    {"cast": "offline", "perturbation": "obvious", "count": 4},
    {"cast": "offline", "perturbation": "subtle", "count": 4},
]


def document(conditions: str = "twins", **changes: Any) -> dict[str, Any]:
    plain = {"design": "crossover", "conditions": conditions, "ratings_per_item": 4, "sources": TWINS, "practice": 0}
    return {**plain, **changes}


def crossed_over(conditions: str = "twins", transitions: int = 12, **changes: Any) -> Study:
    run_factory.create_pool(transitions)
    return study_factory.create_open_study(**document(conditions, **changes))


def sources_of_two_casts() -> list[dict[str, Any]]:
    """Twins of the same steps by two casts: a subtle and an obvious error of each."""
    for step in Transition.objects.order_by("pk"):
        run_factory.create_twin(step, "obvious", number=3, cast=OTHER)
        run_factory.create_twin(step, "subtle", number=4, cast=OTHER)
    kinds = [(cast, wrong) for cast in ("offline", OTHER) for wrong in ("obvious", "subtle")]
    return [{"cast": cast, "perturbation": wrong, "count": 4} for cast, wrong in kinds]


def readings(study: Study) -> dict[tuple[str, str], dict[int, int]]:
    """Return for each rater and pair the condition of each session."""
    condition = designs.load_conditions(study)
    found: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    rows = Assignment.objects.filter(item__study=study, released_at__isnull=True)
    for rater, pair, session, item in rows.values_list("rater__label", "pair", "session", "item_id"):
        assert session not in found[rater, str(pair)], "two versions of a pair in one session"
        found[rater, str(pair)][session] = condition[str(item)]
    return found


def answer(assignment: Assignment) -> Rating:
    next_item.mark_opened(assignment)
    return submit.submit_rating(assignment, True, 3, uuid.uuid4()).rating


def finish_session_one(rater: Rater, days_ago: float = 0) -> None:
    for place in rater.assignments.filter(session=1).order_by("position"):
        answer(place)
    past = timezone.now() - timedelta(days=days_ago)
    Rating.objects.filter(assignment__rater=rater).update(submitted_at=past)


@pytest.mark.both_databases
@pytest.mark.parametrize("conditions", ["twins", "sources", "screens"])
def test_crossover_assigns_both_conditions_of_every_pair_one_in_each_session(conditions) -> None:
    run_factory.create_pool(16)
    more: dict[str, Any] = {"sources": sources_of_two_casts()} if conditions == "sources" else {}
    if conditions == "screens":
        more = {"display": {"layouts": ["plain", "aligned"], "by": "item"}}
    study = study_factory.create_open_study(**document(conditions, **more))
    read = readings(study)
    # 4 raters x 8 pairs; for screens 16 items are requested, which are 16 pairs
    assert len(read) == 4 * (16 if conditions == "screens" else 8)
    assert all(sorted(own.values()) == [1, 2] and sorted(own) == [1, 2] for own in read.values())
    per_pair = Counter(pair for (_, pair), own in read.items() if own[1] == 1)
    assert set(per_pair.values()) == {2}, "half of the four raters read condition 1 of each pair in session 1"
    per_rater = Counter(rater for (rater, _), own in read.items() if own[1] == 1)
    assert set(per_rater.values()) == {len(read) // 8}, "each rater reads condition 1 of half of the pairs in session 1"
    for rater in study.raters.all():
        sessions = list(rater.assignments.order_by("position").values_list("session", flat=True))
        assert sessions == sorted(sessions) and len(sessions) == 2 * len(read) // 4
    assert not list(rating_checks.check_repeated_items.find_violations())


def test_crossover_of_layouts_shows_each_item_once_in_each_layout() -> None:
    study = crossed_over("screens", 16, display={"layouts": ["plain", "balance"], "by": "item"})
    shown = defaultdict(set)
    rows = Assignment.objects.filter(item__study=study)
    for rater, digest, layout in rows.values_list("rater", "item__payload_sha256", "layout"):
        shown[rater, digest].add(layout)
    assert len(shown) == 4 * 16 and all(layouts == {"plain", "balance"} for layouts in shown.values())
    assert study.items.count() == 32


def test_crossover_of_twins_pairs_each_original_with_one_twin() -> None:
    study = crossed_over()
    by_pair = defaultdict(list)
    for item in study.items.select_related("source"):
        by_pair[item.source.pair].append(item.source.perturbation)
    assert Counter(map(tuple, map(sorted, by_pair.values()))) == {("none", "obvious"): 4, ("none", "subtle"): 4}


def steps_of_two_casts(transitions: int, alike: int) -> list[dict[str, Any]]:
    """Create steps of two casts on the same materials; for `alike` of them both have the identical outcome."""
    first, second = run_factory.create_episode("caffeine"), run_factory.create_episode("caffeine", OTHER)
    for number in range(1, transitions + 1):
        one = run_factory.create_transition(first, number)
        two = run_factory.create_transition(second, number)
        two.step = one.step if number <= alike else two.step
        two.save(update_fields=["step"])
    return [{"cast": cast, "perturbation": "none", "count": 4} for cast in ("offline", OTHER)]


LEFT_OUT = "6 of 10 cases left out, on which both sources gave the identical outcome; what is compared are cases on which they differ"


def test_crossover_counts_identical_cases_before_and_at_opening(tmp_path, capsys) -> None:
    asked = study_factory.build_protocol(**document("sources", sources=steps_of_two_casts(10, alike=6)))
    study = lifecycle.create_study(lifecycle.parse_protocol(asked))
    staff = Client()
    staff.force_login(User.objects.create_superuser("chief"))
    page = staff.get(reverse("ratings:stock", args=[study.slug])).content.decode()
    assert "6 of 10 cases are left out because both sources gave identical outcomes." in page
    assert "6 of 10 cases are left out" in staff.get(reverse("ratings:matrix", args=[study.slug])).content.decode()
    plan = staff.get(reverse("ratings:plan_json", args=[study.slug])).json()
    assert (plan["items"], plan["identical_cases"], plan["cases"]) == (8, 6, 10)
    file = tmp_path / "study.json"
    file.write_text(json.dumps({**asked, "name": "Another"}))
    call_command("create_study", file)
    assert LEFT_OUT in capsys.readouterr().out
    lifecycle.open_study(study)
    assert study_log_texts.get_event_text(study, "opened").endswith(LEFT_OUT)


def test_crossover_with_too_few_different_cases_states_how_many_are_identical() -> None:
    sources = steps_of_two_casts(10, alike=8)
    with pytest.raises(
        PlanError, match=r"the pool holds 2, and 8 more with identical outcomes, which cannot be compared"
    ):
        study_factory.create_open_study(**document("sources", sources=sources))


def test_crossover_chooses_the_replicate_that_differs() -> None:
    """A replicate equal to the other source's outcome is passed over."""
    same, other = (("a", "1"), ("b", "1")), (("b", "2"), ("c", "1"))
    pool = [Candidate(f"{cast}{content}{pair}", (cast, "none"), pair, content, "e", "Mix")
            for pair, kinds in (("p", same), ("q", (*same, *other))) for cast, content in kinds]  # fmt: skip
    first = {("b", "none"): ("a", "none")}
    [(one, two)] = draw_items.choose_cases(pool, first, {("b", "none"): 1}, 1)
    assert (one.pair, one.content, two.content) == ("q", "1", "2")
    assert draw_items.count_identical_cases(pool, first) == (1, 2)


@pytest.mark.parametrize(
    ("conditions", "more", "names"),
    [
        ("sources", {"sources": [{"cast": c, "perturbation": "none", "count": 4} for c in ("offline", OTHER)]},
         ("offline", OTHER)),
        ("sources", {"sources": []}, ("m1", "m2")),
        ("twins", {}, ("original", "twin")),
        ("twins", {"sources": []}, ("original", "twin, subtle error")),
        ("screens", {"display": {"layouts": ["plain", "balance"]}}, ("layout: plain", "layout: balance")),
        ("screens", {"display": {"layouts": ["plain"], "context": [False, True]}},
         ("goal and earlier steps: no", "goal and earlier steps: yes")),
    ],
)  # fmt: skip
def test_crossover_conditions_have_distinct_names(conditions, more, names) -> None:
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(**document(conditions, **more)))
    asked = [(source.cast, source.perturbation) for source in protocol.sources]
    imported = [("m2", "none"), ("m1", "none")] if conditions == "sources" else [("m1", "none"), ("m1", "subtle")]
    assert designs.name_conditions(protocol, asked or imported) == names


def test_crossover_conditions_are_named_in_results_and_archive() -> None:
    study = crossed_over(washout_days=0)
    assert designs.load_condition_names(study) == ("original", "twin")
    simulated_raters.simulate_raters(study, 4, 0.9, 0.6, seed=5)
    study_factory.unblind_study(study, User.objects.create_superuser("chief"))
    made = results.build_document(Study.objects.get(pk=study.pk), Filters(), "mark", seed=1, resamples=50)
    rows = [row for row in list_records(made["tables"]["contrasts"]) if row["family"] == "conditions"]
    assert rows and {(row["first"], row["second"]) for row in rows} == {("original", "twin")}
    judged = rating_columns.load_analysis_data(Study.objects.get(pk=study.pk), Filters()).table
    entries = contents.iter_results_files(
        made, judged, designs.load_conditions_by_code(study), designs.load_condition_names(study)
    )
    says = next(entry.description for entry in entries if entry.name == "imrmc/conditions.imrmc")
    assert "(condition 1: original; condition 2: twin)" in says


def test_crossover_with_too_few_pairs_states_how_many_there_are() -> None:
    with pytest.raises(PlanError, match=r"needs 4 pairs .* the pool holds 3"):
        crossed_over(transitions=3)


def test_session_two_is_refused_until_the_washout_ends_and_the_page_shows_when() -> None:
    study = crossed_over(washout_days=14)
    rater = study_factory.fill_rater_place(study)
    finish_session_one(rater, days_ago=13)
    second = rater.assignments.filter(session=2).order_by("position")[0]
    assert next_item.find_next_assignment(rater) is None and next_item.mark_opened(second) is False
    with pytest.raises(StudyError, match="second session"):
        submit.submit_rating(second, True, 3, uuid.uuid4())
    client = Client()
    client.force_login(rater.user)
    page = client.get(reverse("ratings:next", args=[rater.code])).content.decode()
    assert "Your first session is done" in page and "8 items" in page
    assert f"{designs.compute_session_2_start(rater):%Y-%m-%d}" in page
    assert client.get(reverse("ratings:rate", args=[second.code])).status_code == 302
    desk = client.get(reverse("ratings:desk"), follow=True).content.decode()
    assert "First session done" in desk
    done = client.get(reverse("ratings:done", args=[rater.code]))
    assert done.status_code == 302
    Rating.objects.filter(assignment__rater=rater).update(submitted_at=timezone.now() - timedelta(days=14, minutes=1))
    assert next_item.find_next_assignment(rater) == second
    assert client.get(reverse("ratings:rate", args=[second.code])).status_code == 200


def test_washout_starts_again_after_a_correction() -> None:
    rater = study_factory.fill_rater_place(crossed_over(washout_days=2))
    finish_session_one(rater, days_ago=3)
    assert next_item.find_next_assignment(rater) is not None
    last = Rating.objects.filter(assignment__rater=rater).last()
    Rating.objects.filter(pk=last.pk).update(revised_at=timezone.now())
    assert next_item.find_next_assignment(rater) is None


def test_session_one_answers_cannot_be_changed_once_session_two_has_begun() -> None:
    rater = study_factory.fill_rater_place(crossed_over(washout_days=0))
    finish_session_one(rater)
    for place in rater.assignments.filter(session=2).order_by("position"):
        answer(place)
    first = rater.assignments.filter(session=1)[0]
    first.rater = rater
    last = rater.assignments.filter(session=2).last()
    last.rater = rater
    assert submit.can_correct(last) and not submit.can_correct(first)


def test_session_two_is_not_served_while_session_one_has_items_left() -> None:
    rater = study_factory.fill_rater_place(crossed_over(washout_days=0))
    second = rater.assignments.filter(session=2).order_by("position")[0]
    second.rater = rater
    assert next_item.mark_opened(second) is False
    assert next_item.find_next_assignment(rater).session == 1


def test_washout_end_is_notified_by_one_email(settings) -> None:
    settings.EMAIL_HOST, settings.SITE_URL = "mail.example.org", "https://bench.example.org"
    study = crossed_over(washout_days=14)
    done, waiting = study_factory.fill_rater_place(study), study_factory.fill_rater_place(study)
    User.objects.filter(pk__in=[done.user_id, waiting.user_id]).update(email="rater@example.org")
    finish_session_one(done, days_ago=15)
    finish_session_one(waiting, days_ago=1)
    assert [practice.recall_raters(), practice.recall_raters()] == [1, 0]
    assert "Your second session in Small study is open: 8 items to rate" in mail.outbox[0].body
    assert "https://bench.example.org/" in mail.outbox[0].body


def test_washout_end_is_not_notified_without_a_mail_server(settings) -> None:
    settings.EMAIL_HOST = ""
    rater = study_factory.fill_rater_place(crossed_over(washout_days=0))
    finish_session_one(rater, days_ago=1)
    assert practice.recall_raters() == 0 and Rater.objects.get(pk=rater.pk).recalled_at is None


@pytest.mark.both_databases
def test_crossover_late_rater_gets_both_sessions_and_the_slots_of_a_withdrawn_rater() -> None:
    study = crossed_over()
    first = study_factory.fill_rater_place(study)
    answer(first.assignments.order_by("position")[0])
    running_raters.withdraw_rater(first)
    assert study.raters.get(label="R02").assignments.count() == 16, "nobody gets a version of a pair they have"
    late = running_raters.add_rater_places(study, 1)[0]
    study.refresh_from_db()
    assert study.ratings_per_item == 5, "one item of R01's counts, so that four and the late one make five"
    read = {pair: own for (rater, pair), own in readings(study).items() if rater == late.label}
    assert len(read) == 8 and all(sorted(own) == [1, 2] and sorted(own.values()) == [1, 2] for own in read.values())
    slots = Assignment.objects.filter(rater=late).values_list("slot", flat=True)
    assert all(slot and slot <= study.ratings_per_item for slot in slots)
    assert not list(rating_checks.check_crossover_sessions.find_violations()) and not list(
        rating_checks.check_item_slots.find_violations()
    )


def test_crossover_does_not_assign_one_version_of_a_case_whose_other_version_was_released() -> None:
    """Cases are released when a rater becomes staff; single versions that others leave are not assigned to that rater later."""
    study = crossed_over(allow_unblinded=True)
    first, second, third = (study_factory.fill_rater_place(study) for _ in range(3))
    answer(first.assignments.order_by("position")[0])
    User.objects.filter(pk=first.user_id).update(is_staff=True)
    assert reassign.release_readable_items(study).items == 15
    User.objects.filter(pk=first.user_id).update(is_staff=False)
    dealt = running_raters.withdraw_rater(second)
    assert dealt == reassign.Reassignment(0, 15 + 16)
    assert (
        "0 items reassigned to others; 31 items unassigned until another rater is added"
        in study_log_texts.list_event_texts(study, "withdrawn")[-1]
    )
    assert list(first.assignments.values_list("session", flat=True)) == [1], "what was shown, and no more"
    lifecycle.close_study(study)
    lifecycle.reopen_study(study)
    assert first.assignments.count() == 1 and third.assignments.count() == 16
    assert not list(rating_checks.check_crossover_sessions.find_violations()) and not list(
        rating_checks.check_repeated_items.find_violations()
    )
    late = running_raters.add_rater_places(study, 1)[0]
    sessions = [sorted(own) for (rater, _), own in readings(study).items() if rater == late.label]
    assert sessions == [[1, 2]] * 8


def test_crossover_items_stay_in_their_session_when_the_order_is_shuffled() -> None:
    study = crossed_over()
    rater = study_factory.fill_rater_place(study)
    answer(rater.assignments.order_by("position")[0])
    before = dict(rater.assignments.values_list("item_id", "session"))
    old = list(rater.assignments.order_by("position").values_list("item_id", flat=True))
    reassign.shuffle_remaining(study, [rater.pk])
    order = list(rater.assignments.order_by("position").values_list("item_id", "session", "position"))
    assert [item for item, _, _ in order] != old and order[0][0] == old[0]
    assert [session for _, session, _ in order] == [1] * 8 + [2] * 8
    assert {item: session for item, session, _ in order} == before
    assert [position for _, _, position in order] == list(range(1, 17))


def test_crossover_refuses_added_items_and_imported_ratings_with_an_alternative() -> None:
    study = crossed_over()
    with pytest.raises(StudyError, match="Duplicate the study"):
        running_raters.add_items(study, [])
    with pytest.raises(StudyError, match="crossed or balanced"):
        rating_imports.check_file(study, BytesIO(b"item,rater,verdict\n"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"repeats": 0.1}, "repeats: is 0.1; in a crossover no item is shown twice: choose 0"),
        ({"items_per_rater": 5}, "items_per_rater: is 5; in a crossover every rater rates every item"),
        (
            {"display": {"layouts": ["plain", "aligned"]}},
            "display: makes 2 screens; a crossover of twins has one screen",
        ),
        ({"conditions": "screens"}, "display: makes 1 screens; a crossover of screens compares exactly 2"),
        ({"conditions": "sources"}, "sources: contains 1 cast; a crossover of sources compares exactly 2"),
        ({"sources": TWINS[:2]}, "a crossover of twins has one cast of originals and as many twins as originals"),
        ({"conditions": "colours"}, "conditions: is 'colours'; allowed: sources, twins, screens"),
        ({"washout_days": -1}, "washout_days: is -1; allowed: a whole number from 0 to 365"),
        ({"design": "balanced"}, "conditions: is 'twins'; it requires design \"crossover\": leave it out"),
        ({"raters": 6}, "raters: is 6; in a crossed design every rater rates every item: 4, as ratings_per_item"),
    ],
)
def test_crossover_refuses_incompatible_options_with_a_reason(changes, said) -> None:
    with pytest.raises(ProtocolError) as refused:
        lifecycle.parse_protocol(study_factory.build_protocol(**{**document(), **changes}))
    assert said in str(refused.value)


def test_crossover_without_conditions_is_refused() -> None:
    asked = study_factory.build_protocol(**document())
    del asked["conditions"]
    with pytest.raises(ProtocolError, match="conditions: is missing"):
        lifecycle.parse_protocol(asked)


def test_crossover_document_stores_conditions_and_washout() -> None:
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(**document(washout_days=3)))
    assert protocol.to_document()["conditions"] == "twins" and protocol.to_document()["washout_days"] == 3
    assert "conditions" not in lifecycle.parse_protocol(study_factory.build_protocol()).to_document()


def test_crossover_ratings_file_has_rater_pair_and_session() -> None:
    study = crossed_over(washout_days=14)
    simulated_raters.simulate_raters(study, 4, 0.9, 0.6, seed=5)
    study_factory.unblind_study(study, User.objects.create_superuser("chief"))
    rows = list(exports.iter_rating_cells(Study.objects.get(pk=study.pk), blinded=False))
    assert len(rows) == 4 * 16 and Counter(row["session"] for row in rows) == {1: 32, 2: 32}
    pairs = Counter((row["rater"], row["pair"]) for row in rows)
    assert set(pairs.values()) == {2}


def test_audit_finds_a_session_that_is_associated_with_planted_errors() -> None:
    study = crossed_over(transitions=24, sources=[{**one, "count": 2 * one["count"]} for one in TWINS])
    fair = next(check for check in order_tests.check_orders(study) if check.name == "order")
    assert not fair.leaks and any(c["name"].startswith("the session") for c in fair.measured["contrasts"])
    for assignment in Assignment.objects.filter(item__study=study).select_related("item__source"):
        assignment.session = 1 if assignment.item.source.perturbation == "none" else 2
        Assignment.objects.filter(pk=assignment.pk).update(session=assignment.session, pair=uuid.uuid4())
    biased = next(check for check in order_tests.check_orders(study) if check.name == "order")
    assert any("the session" in leak.what for leak in biased.leaks)


def test_verify_finds_a_short_washout_and_a_repeated_pair() -> None:
    study = crossed_over(washout_days=14)
    rater = study_factory.fill_rater_place(study)
    finish_session_one(rater, days_ago=20)
    answer(rater.assignments.filter(session=2)[0])
    assert not list(rating_checks.check_crossover_sessions.find_violations())
    Rating.objects.filter(assignment__rater=rater, assignment__session=1).update(submitted_at=timezone.now())
    assert any(
        "days between the sessions" in str(found) for found in rating_checks.check_crossover_sessions.find_violations()
    )


@pytest.mark.parametrize("conditions", ["twins", pytest.param("screens", marks=pytest.mark.thorough)])
def test_audit_of_a_crossover_passes_and_visits_both_sessions(conditions, audit_in_place) -> None:
    """Raters are visited in both sessions, although no washout has ended."""
    if conditions == "screens":
        sources = [
            {"cast": "offline", "perturbation": "none", "count": 4},
            {"cast": "offline", "perturbation": "subtle", "count": 4},
        ]
        study = crossed_over(
            "screens", 16, display={"layouts": ["plain", "aligned"]}, sources=sources, ratings_per_item=2
        )
    else:
        study = crossed_over(ratings_per_item=2)
    report = audit_runner.run_audit(study).report
    failed = [check["name"] for check in report["checks"] if check["passed"] is False]
    assert failed == ["payload words"], "the pool of the factories writes kL in every planted error"
