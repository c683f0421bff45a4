"""The pages of vetting: filter and place, undo, and random samples that two people vet independently."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.web.study.vetting_samples import measure_agreement
from simulation.models import SampledTwin, Twin, TwinDecision, VettingSample
from simulation.runs import vetting, vetting_samples
from simulation.web.twin_filter import describe_place
from tests.support import run_factory
from wetbench_site.maintenance.verify.episode_checks import TWIN_CHECKS

pytestmark = pytest.mark.django_db
DIFF = [{"path": "new_materials[0].properties.volume", "before": "111 mL", "after": "1 kL"}]
OUTCOME = {"new_materials": [{"name": "Tube"}, {"name": "Sample"}, {"name": "Tube"}], "new_observations": [{}]}


def sign_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get_or_create(username=name, defaults={"is_staff": True})[0])
    return client


def create_waiting(count: int, perturbation: str = "subtle") -> list[Twin]:
    """Create twins from a model that wait for a person."""
    episode = run_factory.create_episode(replicate=Twin.objects.count() + 1)
    fields = {"rule": "", "kind": "", "field": "", "diff": DIFF, "cast": "small", "ended_at": timezone.now()}
    steps = [run_factory.create_transition(episode, number) for number in range(1, count + 1)]
    return [run_factory.create_twin(step, perturbation, **fields) for step in steps]


def build_answer(**changes: str) -> dict[str, str]:
    plain = {"wrong": "yes", "only_change": "yes", "tell": "no", "perturbation": "subtle", "decision": "accepted"}
    return {**plain, "field": DIFF[0]["path"], "note": "", **changes}


def vet(client: Client, twin: Twin, query: str = "", **changes: str) -> Any:
    return client.post(f"{reverse('ratings:vet', args=[twin.code])}?{query}", build_answer(**changes))


def draw_sample(client: Client, query: str = "", share: int = 50) -> VettingSample:
    client.post(f"{reverse('ratings:vetting_samples')}?{query}", {"share": share, "seed": 7})
    return VettingSample.objects.first()  # type: ignore[return-value]  # just drawn


def vet_sample(client: Client, sample: VettingSample, rejected: tuple[int, ...] = ()) -> None:
    """Decide on every twin of the sample that waits for this person; `rejected` are positions."""
    for row in sample.sampled.select_related("twin").order_by("position"):
        changes = {"wrong": "no", "decision": "rejected"} if row.position in rejected else {}
        assert vet(client, row.twin, f"sample={sample.code}", **changes).status_code == 302


def get_page(client: Client, name: str, *args: Any, query: str = "", app: str = "ratings") -> str:
    return client.get(f"{reverse(f'{app}:{name}', args=args)}?{query}").content.decode()


def test_vetting_queue_keeps_its_filter_and_counts_what_waits_under_it() -> None:
    ada = sign_in("ada")
    first, second, third = create_waiting(3)
    create_waiting(4, "obvious")
    page = get_page(ada, "vetting", query="error=subtle")
    assert "3 twins to review<" in page and f"/vetting/{first.code}/?error=subtle" in page
    assert "2 more to review under this filter (subtle errors)" in get_page(
        ada, "vet", first.code, query="error=subtle"
    )
    answer = vet(ada, first, "error=subtle")
    assert answer["Location"] == f"{reverse('ratings:vet', args=[second.code])}?error=subtle&last={first.code}"
    vet(ada, second, "error=subtle")
    # The last one under the filter leads back to the queue with the filter, not to a twin outside it.
    gone = vet(ada, third, "error=subtle")
    assert gone["Location"] == f"{reverse('ratings:vetting')}?error=subtle&last={third.code}"


def test_decision_can_be_undone_from_the_next_page() -> None:
    ada = sign_in("ada")
    first, _ = create_waiting(2)
    page = ada.get(vet(ada, first)["Location"]).content.decode()
    undo = reverse("ratings:reopen_twin", args=[first.code])
    assert f'action="{undo}"' in page
    assert ada.post(undo)["Location"] == reverse("ratings:vet", args=[first.code])
    first.refresh_from_db()
    assert (first.vetting, first.vetted_at, first.vetted_by) == ("", None, None)
    assert [one.decision for one in vetting.list_decisions(first)] == ["accepted", "reopened"]
    assert [wrong for check in TWIN_CHECKS[1:] for wrong in check.find_violations()] == []
    assert "no decision of a person to undo" in ada.post(undo, follow=True).content.decode()


def test_acceptance_by_a_rule_cannot_be_undone() -> None:
    ada = sign_in("ada")
    twin = create_waiting(1)[0]
    Twin.objects.filter(pk=twin.pk).update(rule="matter is conserved")
    vetting.accept_by_rule(Twin.objects.all())
    ada.post(reverse("ratings:reopen_twin", args=[twin.code]))
    twin.refresh_from_db()
    assert twin.vetting == "accepted"


def test_second_person_vets_the_sample_blind_and_then_the_rest_can_be_accepted() -> None:
    ada, ben = sign_in("ada"), sign_in("ben")
    create_waiting(8)
    sample = draw_sample(ada)
    assert sample.sampled.count() == 4  # half of 8
    vet_sample(ada, sample, rejected=(1,))
    assert "Your part is done" in get_page(ada, "vetting_sample", sample.code)
    page = get_page(ben, "vetting_sample", sample.code)
    assert "<strong>4</strong> twins wait" in page and "rejected" not in page and "kappa" not in page
    first = sample.sampled.get(position=1).twin
    blind = get_page(ben, "vet", first.code, query=f"sample={sample.code}")
    assert "rejected" not in blind.replace('rejected" id=', "").replace('value="rejected"', "")
    assert "by ada" not in blind and 'value="no" required id="id_wrong_1" checked' not in blind
    # Neither the twin's own page nor the list shows the first decision to the second person.
    for page in (get_page(ben, "twin", first.code, app="simulation"), get_page(ben, "twins", app="simulation")):
        assert "in a sample" in page and 'pill--danger">rejected' not in page and "By ada" not in page
    assert 'pill--danger">rejected' in get_page(ada, "twin", first.code, app="simulation")
    vet_sample(ben, sample, rejected=(1, 2))
    assert 'pill--danger">rejected' in get_page(ben, "twin", first.code, app="simulation")
    first.refresh_from_db()
    assert first.vetting == "rejected" and TwinDecision.objects.count() == 4  # a second decision changes nothing
    page = " ".join(get_page(ben, "vetting_sample", sample.code).split())
    # 3 of 4 alike. By chance: 3/4 x 2/4 both accept, 1/4 x 2/4 both reject: 0.5. Kappa: (0.75 - 0.5) / 0.5.
    assert "<dd>75%<small>3 of 4" in page and "0.50<small>n = 4" in page and "4 twins of the same filter wait" in page
    ben.post(reverse("ratings:vetting_sample", args=[sample.code]))
    sample.refresh_from_db()
    assert sample.accepted == 4 and sample.agreement["agreed"] == 3 and sample.agreement["kappa"] == 0.5
    unread = vetting.filter_accepted_unread(Twin.objects.all())
    assert unread.count() == 4 and vetting.filter_accepted(Twin.objects.all(), by_person=True).count() == 3
    twin = unread.first()
    assert twin is not None
    [logged] = twin.decisions.all()
    assert logged.by and logged.by.username == "ben" and "50 % of 8, seed 7" in logged.note and "3 of 4" in logged.note
    ada.post(reverse("ratings:reopen_twin", args=[twin.code]))
    assert unread.count() == 3 and vetting.filter_undecided(Twin.objects.all()).count() == 1
    assert [wrong for check in TWIN_CHECKS[1:] for wrong in check.find_violations()] == []


def test_rest_of_a_sample_cannot_be_accepted_before_two_people_have_decided() -> None:
    ada = sign_in("ada")
    create_waiting(4)
    sample = draw_sample(ada)
    vet_sample(ada, sample)
    for row in sample.sampled.all():
        vet(ada, row.twin, f"sample={sample.code}")  # the same person again
    assert not SampledTwin.objects.filter(second_at__isnull=False).exists()
    answer = ada.post(reverse("ratings:vetting_sample", args=[sample.code]), follow=True)
    assert "Two people must decide on every twin" in answer.content.decode()
    assert vetting.filter_undecided(Twin.objects.all()).count() == 2


def test_twin_created_after_the_sample_was_drawn_is_not_accepted_with_it() -> None:
    ada, ben = sign_in("ada"), sign_in("ben")
    create_waiting(4)
    sample = draw_sample(ada, "error=subtle")
    create_waiting(3)
    create_waiting(2, "obvious")
    for person in (ada, ben):
        vet_sample(person, sample)
    assert vetting_samples.list_remaining(sample).count() == 2


def test_sample_with_one_seed_is_the_same_and_needs_waiting_twins() -> None:
    ada = sign_in("ada")
    create_waiting(9)
    drawn = [list(draw_sample(ada).sampled.values_list("twin", flat=True)) for _ in range(2)]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 5  # half of 9, rounded up
    answer = ada.post(f"{reverse('ratings:vetting_samples')}?error=obvious", {"share": 20}, follow=True)
    assert "nothing to sample" in answer.content.decode()
    answer = ada.post(reverse("ratings:vetting_samples"), {"share": 200}, follow=True)
    assert "Share to vet (%)" in answer.content.decode() and VettingSample.objects.count() == 2


def test_agreement_without_a_pair_is_no_number() -> None:
    assert measure_agreement([]) is None


@pytest.mark.parametrize(
    ("path", "is_lost", "words"),
    [
        ("new_materials[1].properties.final_volume", False, "Sample: final volume"),
        ("new_materials[2].environmental_condition", False, "Tube (2 of 2): storage"),
        ("new_materials[0]", False, "Tube (1 of 2), as a whole"),
        ("new_materials[5].name", False, "material 6: name"),
        ("new_observations[0].value", False, "observation 1: value"),
        ("failure_reason", False, "the reason for the rejection"),
        ("new_materials[0]", True, "Flask, as a whole"),
    ],
)
def test_place_of_a_difference_is_shown_in_words(path: str, is_lost: bool, words: str) -> None:
    assert describe_place(path, {"new_materials": [{"name": "Flask"}]}, OUTCOME, is_lost) == words
