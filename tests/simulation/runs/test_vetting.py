"""Vetting: decisions by people and rules, and which twins may enter a study."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from simulation.models import Transition, Twin, TwinDecision
from simulation.runs import vetting
from simulation.runs.vetting import VettingAnswers
from tests.support import run_factory
from wetbench_site.maintenance.verify.episode_checks import TWIN_CHECKS

pytestmark = pytest.mark.django_db

DIFF = [
    {"path": "new_materials[0].properties.volume", "before": "111 mL", "after": "1 kL"},
    {"path": "new_observations[0].value", "before": None, "after": "<b>7</b>"},
]
FINE = VettingAnswers(
    "accepted", "subtle", wrong=True, only_change=True, tell=False, field=DIFF[0]["path"], note=" well made "
)


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", is_staff=True)


@pytest.fixture
def step() -> Transition:
    return run_factory.create_transition(run_factory.create_episode(), 2)


def by_model(step: Transition, number: int = 1, **fields: object) -> Twin:
    return run_factory.create_twin(
        step, "subtle", number, cast="small", **{"rule": "", "field": "", "diff": DIFF, **fields}
    )


def by_rule(step: Transition, number: int = 9, **fields: object) -> Twin:
    return run_factory.create_twin(step, "obvious", number, **{"rule": "matter is conserved", "diff": DIFF, **fields})


def may_enter(twin: Twin, by_person: bool = False) -> bool:
    return vetting.filter_accepted(Twin.objects.filter(pk=twin.pk), by_person).exists()


def test_twin_from_a_model_waits_for_a_person(step: Transition) -> None:
    twin = by_model(step)
    assert not may_enter(twin) and list(vetting.get_vetting_queue()) == [twin]


def test_twin_from_rules_is_accepted_unless_a_person_is_required(step: Transition) -> None:
    twin = by_rule(step)
    assert may_enter(twin) and not may_enter(twin, by_person=True)
    assert list(vetting.get_vetting_queue()) == [] and list(vetting.get_vetting_queue(include_rules=True)) == [twin]


def test_twin_accepted_without_being_read_may_enter_studies_and_still_waits_for_vetting(
    step: Transition, ada: User
) -> None:
    twin, unplaced = by_model(step, field=DIFF[0]["path"]), by_model(step, 2, field="nowhere")
    vetted, planted = by_model(step, 3), by_rule(step)
    vetting.record_decision(vetted, FINE, ada)
    everything = Twin.objects.all()
    assert vetting.accept_unread(everything, "nobody looked") == 2 and vetting.accept_unread(everything, "again") == 0
    twin.refresh_from_db()
    assert may_enter(twin) and not may_enter(twin, by_person=True)
    assert twin.field == DIFF[0]["path"] and not Twin.objects.get(pk=unplaced.pk).field
    assert list(vetting.get_vetting_queue()) == [twin, unplaced] and list(
        vetting.get_vetting_queue(include_rules=True)
    ) == [
        twin,
        unplaced,
        planted,
    ]
    assert list(vetting.filter_accepted_unread(everything)) == [twin, unplaced]
    [said] = twin.decisions.all()
    assert (said.decision, said.by, said.note) == ("unread", None, "nobody looked")
    page = Client()
    page.force_login(ada)
    for address in (
        reverse("ratings:vetting"),
        reverse("ratings:vet", args=[twin.code]),
        reverse("simulation:twin", args=[twin.code]),
    ):
        assert "accepted unread" in page.get(address).content.decode()
    assert [wrong for check in TWIN_CHECKS[1:] for wrong in check.find_violations()] == []
    vetting.record_decision(twin, FINE, ada)
    assert may_enter(twin, by_person=True) and list(vetting.filter_accepted_unread(everything)) == [unplaced]


def test_twin_without_an_error_needs_no_decision(step: Transition) -> None:
    twin = by_model(step)
    Twin.objects.filter(pk=twin.pk).update(perturbation="none", explanation="")
    assert may_enter(twin) and not vetting.get_vetting_queue().exists()


def test_decision_of_a_person_is_stored_and_logged(step: Transition, ada: User) -> None:
    twin = by_model(step)
    said = vetting.record_decision(twin, FINE, ada)
    twin.refresh_from_db()
    assert (twin.vetting, twin.vetted_by, twin.field, twin.vetted_as) == ("accepted", ada, DIFF[0]["path"], "")
    assert (said.decision, said.perturbation, said.wrong, said.only_change, said.tell) == (
        "accepted", "subtle", True, True, False,
    )  # fmt: skip
    assert said.note == "well made" and may_enter(twin, by_person=True)


def test_vetting_decision_may_change_the_error_type(step: Transition, ada: User) -> None:
    twin = by_model(step)
    assert vetting.record_decision(twin, FINE._replace(perturbation="obvious"), ada).decision == "relabelled"
    twin.refresh_from_db()
    assert vetting.get_error_type(twin) == "obvious" and twin.perturbation == "subtle"


def test_all_vetting_decisions_are_stored_and_the_last_one_counts(step: Transition, ada: User) -> None:
    twin = by_model(step)
    vetting.record_decision(twin, FINE._replace(perturbation="obvious"), ada)
    vetting.record_decision(twin, FINE._replace(decision="rejected", wrong=False), ada)
    assert [one.decision for one in vetting.list_decisions(twin)] == ["relabelled", "rejected"]
    assert not may_enter(twin) and not vetting.get_vetting_queue(include_rules=True).exists()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (FINE._replace(wrong=False), "not wrong"),
        (FINE._replace(wrong=None), "not wrong"),
        (FINE._replace(tell=True), "gives it away"),
        (FINE._replace(field="<script>"), "differs at"),
        (FINE._replace(perturbation="none"), "obvious or subtle"),
        (FINE._replace(decision=""), "whether it may enter"),
    ],
)
def test_contradictory_vetting_answers_change_nothing(
    step: Transition, ada: User, answers: VettingAnswers, why: str
) -> None:
    twin = by_model(step)
    with pytest.raises(vetting.LabError, match=why):
        vetting.record_decision(twin, answers, ada)
    assert not TwinDecision.objects.exists() and not may_enter(twin)


def test_an_unfinished_twin_cannot_be_vetted(step: Transition, ada: User) -> None:
    twin = by_model(step, status="unusable", outcome=None)
    with pytest.raises(vetting.VettingError, match="Only a finished twin"):
        vetting.record_decision(twin, FINE, ada)


def test_acceptance_by_rule_is_recorded_once_and_never_for_twins_from_models(step: Transition) -> None:
    planted, models = by_rule(step), by_model(step)
    assert vetting.accept_by_rule(Twin.objects.all()) == 1 and vetting.accept_by_rule(Twin.objects.all()) == 0
    said = TwinDecision.objects.get()
    assert said.twin == planted and said.by is None and said.decision == "accepted"
    models.refresh_from_db()
    assert models.vetting == ""
    assert not may_enter(planted, by_person=True), "a rule's word is no person's"


# Pages


@pytest.fixture
def staff(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def answer(**changes: str) -> dict[str, str]:
    plain = {"wrong": "yes", "only_change": "yes", "tell": "no", "perturbation": "subtle", "decision": "accepted"}
    return {**plain, "field": DIFF[0]["path"], "note": "", **changes}


def test_vetting_queue_links_each_twin_to_the_next_and_previous(staff: Client, step: Transition) -> None:
    first, second = by_model(step, 1), by_model(step, 2)
    shown = staff.get(reverse("ratings:vetting")).content.decode()
    assert "2 twins to review<" in shown and str(first.code) in shown
    gone = staff.post(reverse("ratings:vet", args=[first.code]), answer())
    assert gone["Location"] == f"{reverse('ratings:vet', args=[second.code])}?last={first.code}"
    gone = staff.post(reverse("ratings:vet", args=[second.code]), answer(decision="rejected", wrong="no"), follow=True)
    assert (
        gone.redirect_chain[-1][0] == f"{reverse('ratings:vetting')}?last={second.code}"
        and "No twins to review" in gone.content.decode()
    )
    assert list(TwinDecision.objects.values_list("decision", flat=True)) == ["accepted", "rejected"]


def test_vetting_page_shows_the_diff_beside_the_raters_view(staff: Client, step: Transition) -> None:
    shown = staff.get(reverse("ratings:vet", args=[by_model(step).code])).content.decode()
    assert (
        "Sample: volume</th>" in shown
        and "observation 1: value</th>" in shown
        and "1 kL" in shown
        and "As raters would see it" in shown
    )
    assert "&lt;b&gt;7&lt;/b&gt;" in shown and "<b>7" not in shown
    # The row of the volume is labeled where raters would mark it.
    assert shown.count("mark-changed") == 2 and 'name="marks"' not in shown


@pytest.mark.parametrize("missing", ["wrong", "only_change", "tell", "perturbation", "decision"])
def test_vetting_requires_an_answer_to_every_question(staff: Client, step: Transition, missing: str) -> None:
    told = answer()
    del told[missing]
    twin = by_model(step)
    assert staff.post(reverse("ratings:vet", args=[twin.code]), told).status_code == 422
    assert not TwinDecision.objects.exists()


def test_vetting_page_reports_contradictory_answers(staff: Client, step: Transition) -> None:
    refused = staff.post(reverse("ratings:vet", args=[by_model(step).code]), answer(wrong="no"))
    assert refused.status_code == 422 and "not wrong cannot be used as an error" in refused.content.decode()


def test_vetting_page_points_out_text_that_reveals_a_twin(staff: Client, step: Transition) -> None:
    twin = by_model(step)
    twin.outcome["new_observations"][0]["description"] = "This error type is implausible"
    twin.save()
    shown = staff.get(reverse("ratings:vet", args=[twin.code])).content.decode()
    assert "The text of this twin may reveal the error" in shown and "implausible" in shown


def test_vetting_queue_has_a_constant_number_of_queries(staff: Client, step: Transition) -> None:
    counts = []
    for number in (range(1, 4), range(4, 10)):
        for at in number:
            by_model(step, at)
        with CaptureQueriesContext(
            connection,
        ) as made:
            staff.get(reverse("ratings:vetting"))
        counts.append(len(made))
    assert counts[0] == counts[1]


def test_kind_of_an_error_planted_by_a_model_is_named_by_the_vetter(step: Transition, ada: User) -> None:
    twin = by_model(step)
    decision = vetting.record_decision(twin, FINE._replace(kind="  Wrong  concentration "), ada)
    twin.refresh_from_db()
    assert (twin.kind, decision.kind) == ("wrong_concentration", "wrong_concentration")
    assert vetting.list_known_kinds() == ["wrong_concentration"]
    vetting.record_decision(twin, FINE._replace(kind="Impossible magnification: 4000x"), ada)
    twin.refresh_from_db()
    assert twin.kind == "impossible_magnification_4000x"
    assert [one.kind for one in vetting.list_decisions(twin)] == [
        "wrong_concentration",
        "impossible_magnification_4000x",
    ]
    with pytest.raises(vetting.VettingError, match="has 70 characters; the maximum is 60"):
        vetting.record_decision(twin, FINE._replace(kind="x" * 70), ada)


def test_kind_of_an_error_planted_by_rules_cannot_be_changed_by_the_vetter(
    step: Transition, ada: User, client: Client
) -> None:
    twin = by_rule(step, kind="mass_appears")
    vetting.record_decision(twin, FINE._replace(perturbation="obvious", kind="something else"), ada)
    twin.refresh_from_db()
    assert twin.kind == "mass_appears"
    client.force_login(ada)
    assert 'name="kind"' not in client.get(reverse("ratings:vet", args=[twin.code])).content.decode()


def test_vetting_form_suggests_known_kinds_of_error(step: Transition, ada: User, client: Client) -> None:
    first, second = by_model(step, 1), by_model(step, 2)
    client.force_login(ada)
    given = {"wrong": "yes", "only_change": "yes", "tell": "no", "perturbation": "subtle", "decision": "accepted"}
    client.post(reverse("ratings:vet", args=[first.code]), {**given, "kind": "Wrong concentration"})
    first.refresh_from_db()
    assert first.kind == "wrong_concentration"
    page = client.get(reverse("ratings:vet", args=[second.code])).content.decode()
    assert '<option value="wrong concentration">' in page and "What kind of error is it?" in page
    assert "wrong concentration" in client.get(reverse("ratings:vet", args=[first.code])).content.decode()
