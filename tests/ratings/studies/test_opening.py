"""Opening a study: what it takes from the pool, what it creates, and what it reveals."""

import uuid
from collections import Counter
from itertools import pairwise

import pytest
from django.test import Client
from django.utils.html import escape

from ratings.exchange import exports
from ratings.models import Assignment, Item, ItemSource
from ratings.protocol import PlanError, ProtocolError
from ratings.rating import next_item, submit
from ratings.studies import StudyError, freeze, lifecycle, pool
from simulation.models import Experiment
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_opening_freezes_the_requested_items_and_creates_as_few_raters_as_needed() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    sources = ItemSource.objects.filter(item__study=study)
    assert study.status == "open"
    assert sources.filter(perturbation="none", truth=True).count() == 4
    assert sources.filter(perturbation="obvious", truth=False).count() == 3
    assert sources.filter(perturbation="subtle", truth=False).count() == 3
    # Three versions of one transition, two ratings each, all by different people: 3 x 2 = 6.
    assert study.raters.count() == 6
    assert Assignment.objects.filter(item__study=study).count() == 10 * 2


def test_frozen_items_share_one_time_and_are_not_ordered_by_source() -> None:
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": p, "count": 30} for p in ("none", "obvious", "subtle")]
    study = study_factory.create_open_study(sources=sources)
    assert Item.objects.filter(study=study).values("created_at").distinct().count() == 1
    made = list(Item.objects.filter(study=study).order_by("pk").values_list("source__perturbation", flat=True))
    changes = sum(a != b for a, b in pairwise(made))
    # 89 neighbours, each different with probability 60/89: 60 expected, standard deviation about 4.5. Sorted: 2.
    assert changes > 40


def test_opening_is_reproducible_from_pool_and_seed() -> None:
    run_factory.create_pool()
    first, second = study_factory.create_open_study(slug="one"), study_factory.create_open_study(slug="two")

    assert plan(first) == plan(second)


def plan(study: object) -> list[tuple[str, int, str]]:
    rows = Assignment.objects.filter(item__study=study).order_by("rater__label", "position")
    return list(rows.values_list("rater__label", "position", "item__payload_sha256"))


def test_opening_with_too_small_a_pool_states_what_is_missing_and_what_to_do() -> None:
    run_factory.create_pool(2)
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))
    with pytest.raises(
        PlanError,
        match="needs 3 obvious twins by offline, the pool holds 2: create more twins, or vet those in the queue",
    ):
        lifecycle.open_study(study)
    study.refresh_from_db()
    assert study.status == "draft"
    assert not Item.objects.exists()


def test_pool_report_states_requested_and_available_items_of_each_source() -> None:
    run_factory.create_pool(3)
    report = pool.take_stock(lifecycle.parse_protocol(study_factory.build_protocol())).lines
    assert [(line.source.perturbation, line.source.count, line.have, line.is_enough) for line in report] == [
        ("none", 4, 3, False),
        ("obvious", 3, 3, True),
        ("subtle", 3, 3, True),
    ]


def test_pool_excludes_rejected_steps_unfinished_episodes_and_replaced_replicates() -> None:
    run_factory.create_transition(run_factory.create_episode(), 1, accepted=False)
    run_factory.create_transition(run_factory.create_episode(replicate=2, status="running"), 2)
    replaced = run_factory.create_episode(replicate=3, status="failed")
    replaced.counts = False
    replaced.save()
    run_factory.create_transition(replaced, 3)
    good = run_factory.create_transition(run_factory.create_episode(replicate=4), 4)
    run_factory.create_twin(good, "obvious", status="failed", error="broke", outcome=None, explanation="")
    report = pool.take_stock(lifecycle.parse_protocol(study_factory.build_protocol())).lines
    assert [line.have for line in report] == [1, 0, 0]


def test_pool_excludes_twins_identical_to_their_original() -> None:
    original = run_factory.create_transition(run_factory.create_episode(), 1)
    run_factory.create_twin(
        original, "subtle", outcome={**original.step["outcome"], "reasoning": "SECRET: nothing changed"}
    )
    report = pool.take_stock(lifecycle.parse_protocol(study_factory.build_protocol())).lines
    assert [line.have for line in report] == [1, 0, 0]


def test_study_slug_is_unique() -> None:
    lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))
    with pytest.raises(ProtocolError, match="'small-study' is the slug of another study"):
        lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))


def test_study_opens_once_closes_reopens_and_is_unblinded_permanently(admin_user) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    with pytest.raises(StudyError, match="only a study that is draft can be opened"):
        lifecycle.open_study(study)
    lifecycle.close_study(study, admin_user)
    lifecycle.reopen_study(study, admin_user)
    lifecycle.close_study(study, admin_user)
    lifecycle.unblind_study(study, admin_user)
    study.refresh_from_db()
    assert study.status == "unblinded"
    with pytest.raises(StudyError, match="only a study that is closed can be reopened"):
        lifecycle.reopen_study(study, admin_user)
    log = list(study.events.values_list("kind", flat=True))
    assert log == ["created", "opened", "closed", "reopened", "closed", "unblinded"]
    assert study.events.get(kind="unblinded").by == admin_user


def test_unknown_study_name_lists_the_known_ones() -> None:
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))
    assert lifecycle.get_study("small-study") == lifecycle.get_study(str(study.code)) == study
    with pytest.raises(StudyError, match=r"There is no study 'nope'\. Known studies: small-study"):
        lifecycle.get_study("nope")


def test_evidence_study_stores_the_verdict_of_each_classifier_and_no_truth() -> None:
    run_factory.create_evidence_pool()
    study = study_factory.create_open_study(**study_factory.build_evidence_protocol())
    sources = ItemSource.objects.filter(item__study=study)
    assert {tuple(source.verdicts) for source in sources} == {("offline/checklist",)}
    assert sum(source.verdicts["offline/checklist"] for source in sources) == 3
    assert {source.truth for source in sources} == {None}


def test_rating_page_shows_hostile_text_as_plain_text(client: Client) -> None:
    hostile = "{{ 7|add:7 }}{% now 'Y' %}<b onclick=x>\r\nSet-Cookie: x=1\n../../etc =1+1 " + "9" * 4000
    row = run_factory.create_transition(run_factory.create_episode(), 1)
    row.step["inputs"][0]["name"] = row.step["outcome"]["new_materials"][0]["name"] = hostile
    row.step["outcome"]["new_observations"][0]["description"] = "left \u202e right"
    row.save()
    study = study_factory.create_open_study(sources=[{"cast": "offline", "count": 1}])
    rater = study_factory.fill_rater_place(study)
    assignment = next_item.find_next_assignment(rater)
    client.force_login(rater.user)
    answer = client.get(f"/rate/{assignment.code}/")
    page = answer.content.decode()
    assert answer.status_code == 200 and "Set-Cookie" not in answer.headers
    assert page.count(escape(hostile)) >= 1 and "<b onclick" not in page
    assert "left \ufffd right" in page and "\u202e" not in page
    submit.submit_rating(assignment, True, 3, uuid.uuid4())
    assert len(list(exports.export_csv_lines(study, blinded=True))) == 2


def test_pool_excludes_records_whose_goal_has_changed() -> None:
    run_factory.create_evidence_pool(6)
    protocol = lifecycle.parse_protocol(study_factory.build_evidence_protocol(6))
    assert [stock.have for stock in pool.take_stock(protocol).lines] == [6]
    Experiment.objects.update(goal="Something else.", sha256="1" * 64)
    assert [stock.have for stock in pool.take_stock(protocol).lines] == [0]


def test_opening_creates_open_rater_places_and_consecutive_slots() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    assert set(study.raters.values_list("user", "invited_at", "number")) == {(None, None, n) for n in range(1, 7)}
    slots = Assignment.objects.filter(item__study=study).order_by("item", "slot").values_list("item", "slot")
    assert Counter(slot for _, slot in slots) == {1: 10, 2: 10} and len(set(slots)) == 20


def test_crossed_study_assigns_every_item_to_every_rater_and_no_two_versions() -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(design="crossed", ratings_per_item=3)
    assert {rater.assignments.count() for rater in study.raters.all()} == {10} and study.raters.count() == 3
    assert ItemSource.objects.filter(item__study=study).values("pair").distinct().count() == 10


def test_maximum_of_items_per_rater_creates_more_raters() -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(items_per_rater=2)
    # Ten items, two ratings each, at most two for a rater: ten raters.
    assert {rater.assignments.count() for rater in study.raters.all()} == {2} and study.raters.count() == 10


def test_every_rater_has_an_arm_and_a_share_of_repeats() -> None:
    run_factory.create_pool(20)
    display = {"layouts": ["plain", "aligned"], "context": [False, True], "marks": ["off"], "by": "rater"}
    study = study_factory.create_open_study(
        design="crossed", ratings_per_item=4, display=display, repeats=0.2, repeat_distance=5
    )
    arms = [set(rater.assignments.values_list("layout", "with_context")) for rater in study.raters.all()]
    assert sorted(arm for own in arms for arm in own) == [
        ("aligned", False), ("aligned", True), ("plain", False), ("plain", True)
    ]  # fmt: skip
    for rater in study.raters.all():
        first = dict(rater.assignments.filter(occasion=1).values_list("item", "position"))
        again = dict(rater.assignments.filter(occasion=2).values_list("item", "position"))
        assert len(again) == 2 and all(place - first[item] > 5 for item, place in again.items())
        assert next_item.get_arm(rater)[:2] in {*rater.assignments.values_list("layout", "with_context")}


def test_pool_study_opens_with_items_and_raters_but_no_assignments() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(design="pool")
    assert (study.items.count(), study.raters.count(), Assignment.objects.count()) == (10, 6, 0)


def test_opening_preview_matches_opening_and_writes_nothing() -> None:
    run_factory.create_pool()
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))
    seen = freeze.preview_opening(lifecycle.parse_protocol(study.protocol), study)
    assert (seen.items, seen.raters, seen.ratings) == (10, 6, 20) and not Item.objects.exists()
    lifecycle.open_study(study)
    assert sorted(
        Assignment.objects.filter(item__study=study).values_list(
            "rater__number", "item__source__transition_id", "item__source__twin_id", "position", "layout"
        ),
        key=str,
    ) == sorted(
        (
            (
                one.rater + 1,
                seen.origins[one.key].get("transition_id"),
                seen.origins[one.key].get("twin_id"),
                one.position,
                one.layout,
            )
            for one in seen.assignments
        ),
        key=str,
    )


def test_copy_of_a_study_with_the_same_seed_has_different_assignments() -> None:
    """Otherwise, unblinding a copy of an open study would reveal the sources of the study itself."""
    run_factory.create_pool()
    first, second = (
        lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug=slug)))
        for slug in ("one", "two")
    )
    for study in (first, second):
        lifecycle.open_study(study)
    assert first.seed == second.seed and first.salt != second.salt
    assert plan(first) != plan(second)
