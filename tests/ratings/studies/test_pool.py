"""What a study may use: accepted steps, and vetted twins under the error that they count as."""

import pytest
from django.contrib.auth.models import User

from ratings.protocol import StudyProtocol
from ratings.studies import lifecycle, pool
from simulation.models import Twin, TwinDecision
from simulation.runs import vetting
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db

ARMS = {"layouts": ["aligned"], "context": [True], "marks": ["off"], "by": "rater"}


def protocol(**changes: object) -> StudyProtocol:
    return lifecycle.parse_protocol(study_factory.build_protocol(**changes))


def sources(found: list[pool.CandidateItem]) -> list[tuple[str, str]]:
    return sorted(one.candidate.source for one in found)


def test_pool_contains_originals_and_rule_based_twins() -> None:
    run_factory.create_pool(2)
    assert sources(pool.list_usable_candidates(protocol())) == [
        ("offline", p) for p in ("none", "none", "obvious", "obvious", "subtle", "subtle")
    ]


def test_pool_is_limited_to_the_actions_of_the_study() -> None:
    run_factory.create_pool(8)
    found = pool.list_usable_candidates(protocol())
    wanted = found[0].candidate.action
    narrow = protocol()
    narrow = narrow.model_copy(update={"actions": (wanted,)})
    assert {one.candidate.action for one in pool.list_usable_candidates(narrow)} == {wanted}
    assert len(pool.list_usable_candidates(narrow)) < len(found)


def test_pool_contains_a_models_twin_once_a_person_has_accepted_it() -> None:
    run_factory.create_pool(1)
    Twin.objects.filter(perturbation="subtle").update(rule="", vetting="")
    seen = pool.take_inventory(protocol())
    assert ("offline", "subtle") not in sources(seen.usable) and seen.unvetted == {("offline", "subtle"): 1}
    twin = Twin.objects.get(perturbation="subtle")
    answers = vetting.VettingAnswers("accepted", "subtle", wrong=True, only_change=True, tell=False)
    vetting.record_decision(twin, answers, User.objects.create_user("ada"))
    assert ("offline", "subtle") in sources(pool.list_usable_candidates(protocol()))


def test_pool_contains_a_relabelled_twin_under_its_new_error_type() -> None:
    run_factory.create_pool(1)
    twin = Twin.objects.get(perturbation="subtle")
    answers = vetting.VettingAnswers("accepted", "obvious", wrong=True, only_change=True, tell=False)
    vetting.record_decision(twin, answers, User.objects.create_user("ada"))
    found = [one for one in pool.list_usable_candidates(protocol()) if one.origin.get("twin_id") == twin.pk]
    assert [one.candidate.source for one in found] == [("offline", "obvious")] and found[0].origin["truth"] is False


def test_pool_excludes_rejected_twins() -> None:
    run_factory.create_pool(1)
    Twin.objects.filter(perturbation="obvious").update(vetting="rejected")
    assert ("offline", "obvious") not in sources(pool.list_usable_candidates(protocol()))


def test_pool_excludes_rule_based_twins_if_the_study_requires_vetting_by_a_person() -> None:
    run_factory.create_pool(2)
    seen = pool.take_inventory(protocol(vetting="person"))
    assert sources(seen.usable) == [("offline", "none")] * 2 and sum(seen.unvetted.values()) == 4


def test_candidate_records_the_row_with_the_planted_error() -> None:
    run_factory.create_pool(1)
    Twin.objects.update(field="new_materials[0].properties.volume")
    found = {one.candidate.source[1]: one.origin["target"] for one in pool.list_usable_candidates(protocol())}
    assert found["none"] == [] and found["subtle"] == ["A:Volume"]


def test_candidate_has_earlier_steps_only_if_an_arm_shows_them() -> None:
    run_factory.create_pool(4)
    assert {str(one.context) for one in pool.list_usable_candidates(protocol())} == {"{}"}
    found = pool.list_usable_candidates(protocol(display=ARMS))
    number = {one.candidate.key: len(one.context["steps"]) for one in found if one.candidate.source[1] == "none"}
    # steps 1 and 3 are zebrafish's, 2 and 4 caffeine's: the first of each has none before it, the second one
    assert sorted(number.values()) == [0, 0, 1, 1]


def test_twin_and_original_have_the_same_earlier_steps() -> None:
    run_factory.create_pool(4)
    contexts: dict[str, set[str]] = {}
    for one in pool.list_usable_candidates(protocol(display=ARMS)):
        contexts.setdefault(one.candidate.pair, set()).add(str(one.context))
    assert all(len(found) == 1 for found in contexts.values())


def test_opening_logs_that_its_twins_were_accepted_by_rule() -> None:
    run_factory.create_pool(10)
    study = study_factory.create_open_study()
    taken = set(study.items.filter(source__twin__isnull=False).values_list("source__twin", flat=True))
    assert set(TwinDecision.objects.values_list("twin", flat=True)) == taken and len(taken) == 6
    assert set(TwinDecision.objects.values_list("by", flat=True)) == {None}


def test_available_items_report_counts_twins_that_still_need_vetting() -> None:
    run_factory.create_pool(3)
    Twin.objects.filter(perturbation="subtle").update(rule="")
    stock = {line.source.perturbation: line for line in pool.take_stock(protocol()).lines}
    assert (stock["subtle"].have, stock["subtle"].unvetted, stock["obvious"].have) == (0, 3, 3)
