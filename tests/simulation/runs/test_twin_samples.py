"""Samples of steps for twins: shares of strata, determinism, and repeated requests."""

from collections import Counter

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from simulation.models import Experiment, Run, Transition, Twin
from simulation.runs import create, list_accepted_steps
from simulation.runs.create import SampleTooLargeError, allocate_sample, draw_steps
from simulation.web.twin_forms import TwinsForm
from tests.support import run_factory

pytestmark = pytest.mark.django_db
SIZES = {("a", "mix"): 10, ("a", "read"): 5, ("b", "mix"): 4, ("b", "read"): 1}


@pytest.fixture
def pool() -> None:
    run_factory.create_pool(60)


def names(keys: list[int]) -> list[tuple[str, str, int, int]]:
    rows = Transition.objects.filter(pk__in=keys)
    columns = "episode__experiment__slug", "episode__cast", "episode__replicate", "number"
    return sorted(rows.values_list(*columns))


def test_sample_shares_are_proportional_with_at_least_one_step_of_each_stratum() -> None:
    # One of each of four leaves 6 for 9, 4, 3 and 0 of 16: 3.375, 1.5, 1.125 and 0 more on average over seeds.
    found = [allocate_sample(SIZES, 10, seed) for seed in range(400)]
    assert {sum(one.values()) for one in found} == {10}
    means = [sum(one[name] for one in found) / len(found) for name in SIZES]
    assert means == pytest.approx([4.375, 2.5, 2.125, 1], abs=0.1)
    assert {one["a", "mix"] for one in found} == {4, 5} and {one["b", "read"] for one in found} == {1}
    assert allocate_sample(SIZES, 20, 1) == SIZES


def test_sample_smaller_than_the_number_of_strata_can_include_any_stratum() -> None:
    # Three for 10, 5, 4 and 1 of 20: 1.5, 0.75, 0.6 and 0.15.
    found = [allocate_sample(SIZES, 3, seed) for seed in range(400)]
    assert {sum(one.values()) for one in found} == {3}
    means = [sum(one[name] for one in found) / len(found) for name in SIZES]
    assert means == pytest.approx([1.5, 0.75, 0.6, 0.15], abs=0.08)


def test_sample_is_determined_by_its_seed(pool) -> None:
    steps = Transition.objects.filter(accepted=True)
    first = draw_steps(steps, 12, seed=5)
    assert first == draw_steps(steps.order_by("-pk"), 12, seed=5)
    assert len(set(first)) == 12 and set(first) != set(draw_steps(steps, 12, seed=6))
    assert names(first) == sorted(names(first))


def test_a_sample_has_every_action_of_every_experiment(pool) -> None:
    steps = Transition.objects.filter(accepted=True)
    columns = "episode__experiment__slug", "action_name"
    strata = Counter(steps.values_list(*columns))
    drawn = Counter(Transition.objects.filter(pk__in=draw_steps(steps, len(strata), seed=1)).values_list(*columns))
    assert drawn == dict.fromkeys(strata, 1)
    more = Counter(Transition.objects.filter(pk__in=draw_steps(steps, 2 * len(strata), seed=1)).values_list(*columns))
    assert more == allocate_sample(dict(strata), 2 * len(strata), 1)


def test_a_sample_larger_than_the_pool_is_refused_with_both_numbers(pool, capsys) -> None:
    steps = list_accepted_steps(Experiment.objects.all())
    there = steps.count()
    with pytest.raises(
        SampleTooLargeError, match=f"a sample of {there + 1} is larger than the pool, which has {there} "
    ):
        draw_steps(steps, there + 1, seed=1)
    with pytest.raises(CommandError, match=f"a sample of {there + 1} is larger than the pool, which has {there} "):
        call_command("make_twins", sample=there + 1, seed=77)
    form = TwinsForm(
        {
            "experiments": list(Experiment.objects.values_list("slug", flat=True)), "cast": "offline", "error": "both",
            "per_transition": 1, "sample": there + 1, "submission_id": create.create_submission_id(),
        }
    )  # fmt: skip
    assert f"The sample of {there + 1} exceeds the {there} steps of these experiments." in form.errors["sample"]
    assert not Run.objects.filter(kind="twins", seed=77).exists()


def test_sample_requested_again_creates_no_further_twins(pool, capsys) -> None:
    Twin.objects.all().delete()
    call_command("make_twins", sample=6, seed=3)
    made = Counter(Twin.objects.values_list("transition", "perturbation"))
    assert len(made) == 12 and set(made.values()) == {1}
    before = Run.objects.count()
    capsys.readouterr()
    call_command("make_twins", sample=6, seed=3)
    assert "All twins of this sample exist already (seed 3)" in capsys.readouterr().out
    Twin.objects.filter(perturbation="subtle").first().delete()
    call_command("make_twins", sample=6, seed=3)
    assert Counter(Twin.objects.values_list("transition", "perturbation")) == made
    assert Run.objects.count() == before + 1


def test_sample_can_be_requested_on_the_page(pool, client: Client) -> None:
    Twin.objects.all().delete()
    client.force_login(User.objects.create_user("ada", is_staff=True))
    slugs = list(Experiment.objects.values_list("slug", flat=True))
    order = {
        "experiments": slugs, "cast": "offline", "error": "obvious", "per_transition": 1, "sample": 5, "seed": 4,
        "submission_id": create.create_submission_id(),
    }  # fmt: skip
    size = client.get(reverse("simulation:new_twins"), order, headers={"HX-Request": "true"}).content.decode()
    assert "5 accepted steps" in size
    client.post(reverse("simulation:new_twins"), order)
    drawn = draw_steps(list_accepted_steps(Experiment.objects.all()), 5, seed=4)
    assert sorted(Twin.objects.values_list("transition", flat=True)) == sorted(drawn)


def test_sizes_of_subtle_errors_are_stored_with_the_run_and_ordered_explicitly(pool, client: Client, capsys) -> None:
    Twin.objects.all().delete()
    call_command("make_twins", sample=2, seed=5, error="subtle", sizes="2-8")
    call_command("make_twins", sample=2, seed=6, error="subtle")
    sizes = {run.seed: tuple(run.sizes) for run in Run.objects.filter(kind="twins", seed__in=(5, 6))}
    assert sizes == {5: (0.02, 0.08), 6: (0.1, 0.4)}
    with pytest.raises(CommandError, match="must be a range within 1% to 60%, the smaller size first"):
        call_command("make_twins", sample=2, seed=7, sizes="40-10")
    client.force_login(User.objects.create_user("ada", is_staff=True))
    order = {
        "experiments": list(Experiment.objects.values_list("slug", flat=True)), "cast": "offline", "error": "subtle",
        "per_transition": 1, "sample": 3, "seed": 8, "submission_id": create.create_submission_id(),
    }  # fmt: skip
    refused = client.post(reverse("simulation:new_twins"), {**order, "sizes": "much"})
    assert refused.status_code == 422 and "is not a range of sizes; write two percentages" in refused.content.decode()
    assert client.post(reverse("simulation:new_twins"), {**order, "sizes": "3-9"}).status_code == 302
    assert tuple(Run.objects.get(kind="twins", seed=8).sizes) == (0.03, 0.09)
