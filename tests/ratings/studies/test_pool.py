"""What a study may take: accepted steps, vetted twins under the error they count as, nothing that gives itself away."""

import pytest
from django.contrib.auth.models import User

from ratings.protocol import StudyProtocol
from ratings.studies import lifecycle
from ratings.studies.pool import pool
from simulation.models import Twin, TwinDecision
from simulation.runs import vetting
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db

ARMS = {"layouts": ["aligned"], "context": [True], "marks": ["off"], "by": "rater"}


def protocol(**changes: object) -> StudyProtocol:
    return lifecycle.read_protocol(study_factory.protocol(**changes))


def sources(found: list[pool.Found]) -> list[tuple[str, str]]:
    return sorted(one.candidate.source for one in found)


def test_originals_and_what_rules_planted_can_be_used() -> None:
    run_factory.pool(2)
    assert sources(pool.find(protocol())) == [
        ("offline", p) for p in ("none", "none", "obvious", "obvious", "subtle", "subtle")
    ]


def test_only_the_actions_that_a_study_wants_are_found() -> None:
    run_factory.pool(8)
    found = pool.find(protocol())
    wanted = found[0].candidate.action
    narrow = protocol()
    narrow = type(narrow)(**{**narrow.__dict__, "actions": (wanted,)})
    assert {one.candidate.action for one in pool.find(narrow)} == {wanted}
    assert len(pool.find(narrow)) < len(found)


def test_a_models_twin_is_found_once_a_person_has_accepted_it() -> None:
    run_factory.pool(1)
    Twin.objects.filter(perturbation="subtle").update(rule="", vetting="")
    seen = pool.look(protocol())
    assert ("offline", "subtle") not in sources(seen.usable) and seen.unvetted == {("offline", "subtle"): 1}
    twin = Twin.objects.get(perturbation="subtle")
    answers = vetting.Answers("accepted", "subtle", wrong=True, only_change=True, tell=False)
    vetting.decide(twin, answers, User.objects.create_user("ada"))
    assert ("offline", "subtle") in sources(pool.find(protocol()))


def test_a_relabelled_twin_is_found_as_what_it_counts_as() -> None:
    run_factory.pool(1)
    twin = Twin.objects.get(perturbation="subtle")
    answers = vetting.Answers("accepted", "obvious", wrong=True, only_change=True, tell=False)
    vetting.decide(twin, answers, User.objects.create_user("ada"))
    found = [one for one in pool.find(protocol()) if one.origin.get("twin_id") == twin.pk]
    assert [one.candidate.source for one in found] == [("offline", "obvious")] and found[0].origin["truth"] is False


def test_a_rejected_twin_is_never_found() -> None:
    run_factory.pool(1)
    Twin.objects.filter(perturbation="obvious").update(vetting="rejected")
    assert ("offline", "obvious") not in sources(pool.find(protocol()))


def test_a_study_may_want_a_person_for_every_twin() -> None:
    run_factory.pool(2)
    seen = pool.look(protocol(vetting="person"))
    assert sources(seen.usable) == [("offline", "none")] * 2 and sum(seen.unvetted.values()) == 4


def test_the_target_is_the_row_in_which_the_error_stands() -> None:
    run_factory.pool(1)
    Twin.objects.update(field="new_materials[0].properties.volume")
    found = {one.candidate.source[1]: one.origin["target"] for one in pool.find(protocol())}
    assert found["none"] == [] and found["subtle"] == ["A:Volume"]


def test_earlier_steps_come_along_only_where_an_arm_shows_them() -> None:
    run_factory.pool(4)
    assert {str(one.context) for one in pool.find(protocol())} == {"{}"}
    found = pool.find(protocol(display=ARMS))
    number = {one.candidate.key: len(one.context["steps"]) for one in found if one.candidate.source[1] == "none"}
    # steps 1 and 3 are zebrafish's, 2 and 4 caffeine's: the first of each has none before it, the second one
    assert sorted(number.values()) == [0, 0, 1, 1]


def test_a_twin_and_its_original_have_the_same_steps_before_them() -> None:
    run_factory.pool(4)
    contexts: dict[str, set[str]] = {}
    for one in pool.find(protocol(display=ARMS)):
        contexts.setdefault(one.candidate.pair, set()).add(str(one.context))
    assert all(len(found) == 1 for found in contexts.values())


def test_opening_logs_that_rules_vouch_for_the_twins_it_took() -> None:
    run_factory.pool(10)
    study = study_factory.open_study()
    taken = set(study.items.filter(source__twin__isnull=False).values_list("source__twin", flat=True))
    assert set(TwinDecision.objects.values_list("twin", flat=True)) == taken and len(taken) == 6
    assert set(TwinDecision.objects.values_list("by", flat=True)) == {None}


def test_the_stock_says_what_waits_for_a_person() -> None:
    run_factory.pool(3)
    Twin.objects.filter(perturbation="subtle").update(rule="")
    stock = {line.source.perturbation: line for line in pool.stock(protocol())}
    assert (stock["subtle"].have, stock["subtle"].unvetted, stock["obvious"].have) == (0, 3, 3)
