"""Tests of simulated raters: which places they take, and how their answers match the configured skill."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models import Count

from ratings.models import EVIDENCE, TRANSITION, ItemSource, Rating
from ratings.raters import invitations
from ratings.raters.simulated_raters import Skill, choose_marks, judge_item, simulate_raters
from ratings.rating import next_item
from ratings.studies import StudyError, lifecycle
from tests.support import run_factory, study_factory


def judge(source, rater, skill, seed, kind=TRANSITION):
    return judge_item(source, kind, f"R{rater}", skill, seed, f"R{rater}")


def run_simulation(study, n, seed=3, **more):
    return simulate_raters(study, n, 0.9, 0.3, seed=seed, **more)


@pytest.fixture
def study(db):
    run_factory.create_pool()
    return study_factory.create_open_study()


class FakeItem:
    def __init__(self, payload_sha256: str) -> None:
        self.payload_sha256 = payload_sha256


def make_sources(perturbation: str, count: int, **fields):
    """Yield unsaved sources of items that differ only in their content."""
    for number in range(count):
        source = ItemSource(perturbation=perturbation, **fields)
        source.__dict__["_state"].fields_cache["item"] = FakeItem(f"{perturbation}{number}")
        yield source


def test_simulated_raters_fill_open_places_and_rate_all_their_items(study) -> None:
    done = run_simulation(study, 6)
    assert done.raters == ("R01", "R02", "R03", "R04", "R05", "R06")
    assert (done.ratings, done.revoked, done.replanned) == (20, (), False)
    assert study.raters.filter(simulated=True).count() == 6
    assert all(str(rater) == f"{rater.label} (simulated)" for rater in study.raters.all())
    assert study.events.last().kind == "simulated"


def test_simulated_answers_are_the_same_for_the_same_seed(db) -> None:
    run_factory.create_pool()
    answers = []
    for slug in ("one", "two"):
        run_simulation(study_factory.create_open_study(slug=slug), 6)
        rows = Rating.objects.filter(assignment__rater__study__slug=slug)
        order = rows.order_by("assignment__rater__label", "assignment__position")
        answers.append(list(order.values_list("assignment__item__payload_sha256", "verdict", "confidence")))
    assert answers[0] == answers[1]


def join_by_link(token: str) -> None:
    invitations.accept_invitation(invitations.find_invitation(token), AnonymousUser(), invitations.JoinForm())


def test_simulated_raters_take_places_with_an_unused_invitation_last_and_revoke_its_link(study) -> None:
    raters = list(study.raters.order_by("number"))
    waiting, accepted = invitations.create_invitation(raters[0]), invitations.create_invitation(raters[1])
    join_by_link(accepted)
    done = run_simulation(study, 5)
    assert done.raters == ("R01", "R03", "R04", "R05", "R06")
    assert done.revoked == ("R01",)
    with pytest.raises(invitations.InvitationExpired):
        join_by_link(waiting)
    assert not study.raters.get(label="R02").simulated


def test_simulated_raters_exceeding_the_rater_places_replan_the_study_if_nobody_is_invited(study) -> None:
    done = run_simulation(study, 10)
    assert (len(done.raters), done.ratings, done.replanned) == (10, 20, True)
    loads = [rater.assignments.count() for rater in study.raters.all()]
    assert loads == [2] * 10
    assert [event.kind for event in study.events.all()][-2:] == ["replanned", "simulated"]


def test_simulated_raters_requested_later_replan_open_places_and_keep_earlier_simulated_raters(study) -> None:
    run_simulation(study, 2)
    given = Rating.objects.count()
    done = run_simulation(study, 8)
    assert done.replanned
    assert given + done.ratings == 20
    # R01 and R02 stay; the four open places R03 to R06 are replaced by the six that are still requested.
    assert sorted(study.raters.values_list("label", flat=True)) == [f"R{n:02}" for n in range(1, 9)]


def test_interrupted_simulation_continues_and_then_has_nothing_left_to_rate(study) -> None:
    class Stop(Exception):  # noqa: N818  # simulates Ctrl-C
        pass

    def stop(done: int, total: int) -> None:
        if done == 9:
            raise Stop

    with pytest.raises(Stop):
        run_simulation(study, 6, progress=stop)
    assert Rating.objects.count() == 9
    assert run_simulation(study, 6).ratings == 11
    assert run_simulation(study, 6) == (tuple(f"R{n:02}" for n in range(1, 7)), 0, (), False)
    assert study.events.filter(kind="simulated").count() == 1


def test_simulated_raters_do_not_replan_a_study_with_invited_people(study) -> None:
    join_by_link(invitations.create_invitation(study.raters.first()))
    with pytest.raises(StudyError, match="5 open rater places and 1 people are invited: 9 simulated raters"):
        run_simulation(study, 9)


def test_simulated_raters_are_rejected_by_a_full_or_closed_study(study) -> None:
    run_simulation(study, 6)
    with pytest.raises(StudyError, match="no open rater place for 1 more"):
        run_simulation(study, 7)
    lifecycle.close_study(study)
    with pytest.raises(StudyError, match="is closed; simulated raters rate while a study is open"):
        run_simulation(study, 1)


def test_simulation_reports_progress_for_every_rating(study) -> None:
    said = []
    run_simulation(study, 6, progress=lambda done, total: said.append((done, total)))
    assert said == [(n, 20) for n in range(1, 21)]


@pytest.mark.parametrize(("perturbation", "called_error"), [("none", 0.07), ("obvious", 0.9), ("subtle", 0.3)])
def test_simulated_verdicts_match_the_configured_shares(perturbation, called_error) -> None:
    skill = Skill(0.9, 0.3)
    verdicts = [
        judge(source, rater, skill, seed)[0]
        for seed in range(10)
        for source in make_sources(perturbation, 100)
        for rater in range(20)
    ]
    # At a share of 0.3 items differ by 0.31 and raters by 0.12: sqrt(0.31^2/100 + 0.12^2/20) / sqrt(10 seeds) = 0.013.
    assert 1 - sum(verdicts) / len(verdicts) == pytest.approx(called_error, abs=0.04)


def test_simulated_raters_detect_declared_errors_as_often_as_subtle_ones() -> None:
    """An imported item with a stated truth only has the perturbation "none" and the reference "declared wrong"."""
    called = {}
    for reference in ("declared wrong", "declared right", "unperturbed"):
        verdicts = [
            judge(source, rater, Skill(0.9, 0.3), seed)[0]
            for seed in range(10)
            for source in make_sources("none", 100, reference=reference)
            for rater in range(20)
        ]
        called[reference] = 1 - sum(verdicts) / len(verdicts)
    assert called["declared wrong"] == pytest.approx(0.3, abs=0.04)
    assert called["declared right"] == called["unperturbed"] == pytest.approx(0.07, abs=0.04)


def test_simulated_marks_hit_the_planted_row_at_the_configured_share() -> None:
    keys = ["A:Volume", "A/name", "B:Volume", "missing"]
    marks = [
        choose_marks(["A:Volume"], keys, f"i{item}", Skill(0.9, 0.3), 1, f"R{rater}")
        for item in range(100)
        for rater in range(20)
    ]
    assert all(len(one) == 1 and one[0] in keys for one in marks)
    # Independent draws: sqrt(0.8 * 0.2 / 2000) = 0.009.
    assert sum(one == ("A:Volume",) for one in marks) / len(marks) == pytest.approx(0.8, abs=0.03)
    again = [
        choose_marks(["A:Volume"], keys, f"i{item}", Skill(0.9, 0.3), 1, f"R{rater}")
        for item in range(100)
        for rater in range(20)
    ]
    assert again == marks
    assert choose_marks([], keys, "i", Skill(0.9, 0.3), 1, "R1")[0] in keys
    assert choose_marks(["missing"], ["missing"], "i", Skill(0.9, 0.3, located=0.001), 1, "R1") == ()


def test_simulated_confidence_is_higher_for_right_answers() -> None:
    said = {True: [], False: []}
    for perturbation in ("none", "obvious"):
        for source in make_sources(perturbation, 200):
            for rater in range(10):
                verdict, confidence = judge(source, rater, Skill(0.9, 0.3), 1)
                said[verdict == (perturbation == "none")].append(confidence)
    right, wrong = (sum(values) / len(values) for values in (said[True], said[False]))
    assert right > wrong + 0.5
    assert set(said[True]) == {1, 2, 3, 4, 5}


def test_simulated_evidence_verdicts_agree_with_the_classifier_at_the_configured_rate() -> None:
    agreed = []
    for sufficient in (True, False):
        for source in make_sources("none", 200, verdicts={"offline/checklist": sufficient}):
            agreed += [judge(source, rater, Skill(0.9, 0.3), 1, EVIDENCE)[0] == sufficient for rater in range(30)]
    assert sum(agreed) / len(agreed) == pytest.approx(0.85, abs=0.06)


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_simulated_skill_rejects_shares_below_0_001_or_above_0_999(share) -> None:
    with pytest.raises(ValueError, match=r"it must be from 0\.001 to 0\.999"):
        Skill(share, 0.3)


def test_simulated_raters_claim_pool_items_in_turn_until_all_are_rated(db) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(design="pool", raters=8)
    done = run_simulation(study, 8)
    assert done.ratings == Rating.objects.count() == 20
    per_item = Rating.objects.values_list("assignment__item").annotate(n=Count("pk"))
    assert {n for _, n in per_item} == {2}
    loads = [next_item.count_progress(rater).done for rater in study.raters.all()]
    # 20 ratings by 8 raters in turn: two or three each, unless the rule of one version per pair prevents it.
    assert min(loads) >= 1 and max(loads) <= 4


def test_simulated_raters_of_a_crossed_study_rate_everything_and_need_open_places(db) -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(design="crossed", ratings_per_item=2)
    with pytest.raises(StudyError, match="is crossed, every rater rates every item, and has 2 open rater places"):
        run_simulation(study, 3)
    assert run_simulation(study, 2).ratings == 20


def test_simulated_repeats_mostly_agree_with_the_first_answer(db) -> None:
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": p, "count": 40} for p in ("none", "subtle")]
    study = study_factory.create_open_study(
        design="balanced", sources=sources, raters=6, ratings_per_item=3, repeats=0.5, repeat_distance=3
    )
    run_simulation(study, 6)
    answers = {}
    for row in Rating.objects.select_related("assignment"):
        answers.setdefault((row.assignment.rater_id, row.assignment.item_id), []).append(row.verdict)
    twice = [said for said in answers.values() if len(said) == 2]
    assert len(twice) == 6 * 20
    # A share of 0.6 of the simulated perception is the same both times, so most answers are the same, but never all.
    assert 0.6 < sum(first == second for first, second in twice) / len(twice) < 0.98
