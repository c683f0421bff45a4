"""Comparison of two studies: what is paired, who may compare which, the job and its page."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.models import Assignment, Membership, Study
from ratings.rating import submit
from ratings.results.analyses import sections_contrasts, store
from ratings.results.analyses.tables import list_records
from simulation.models import Job
from tests.support import run_factory, study_factory
from tests.support.embedded_worker import run_until_idle

pytestmark = pytest.mark.django_db
SOURCES = [{"cast": "offline", "perturbation": error, "count": 4} for error in ("none", "subtle")]


@pytest.fixture
def boss() -> User:
    return User.objects.create_user("boss", is_staff=True)


def create_rated_study(boss: User, slug: str, missed: int, accounts: str = "rater", **changes) -> Study:
    """Return a study of two raters who call every unperturbed item plausible, and the first `missed` planted ones of each."""
    study = study_factory.create_open_study(
        2,
        slug=slug,
        name=slug.title(),
        sources=SOURCES,
        design="crossed",
        ratings_per_item=2,
        allow_unblinded=True,
        **changes,
    )
    Study.objects.filter(pk=study.pk).update(created_by=boss)
    for rater in study.raters.order_by("number"):
        user, _ = User.objects.get_or_create(username=f"{accounts}{rater.number}")
        type(rater).objects.filter(pk=rater.pk).update(user=user)
        planted = 0
        for assignment in (
            Assignment.objects.filter(rater=rater).select_related("item__source").order_by("item__payload_sha256")
        ):
            is_planted = assignment.item.source.perturbation != "none"
            planted += is_planted
            verdict = not is_planted or planted <= missed
            submit.submit_rating(assignment, verdict, 4, uuid.uuid4())
    return study_factory.unblind_study(study, boss)


@pytest.fixture
def two_rated_studies(boss: User) -> tuple[Study, Study]:
    """Return two studies of the same eight items and people: four misses of eight in the first, none in the second."""
    run_factory.create_pool(8)
    return create_rated_study(boss, "first", 2), create_rated_study(boss, "second", 0)


def test_comparison_has_rates_and_detection_and_pairs_items_and_raters_that_studies_share(two_rated_studies) -> None:
    lines = {
        (line["family"], line["first"], line["quantity"]): line
        for line in list_records(sections_contrasts.compare_studies(*two_rated_studies))
    }
    subtle = lines["studies", "subtle error: this study", "rate"]
    assert (subtle["first_value"], subtle["second_value"], subtle["difference"]) == (0.5, 0.0, 0.5)
    assert (subtle["shared_items"], subtle["shared_raters"], subtle["ratings"]) == (4, 2, 16)
    assert lines["studies", "unperturbed: this study", "rate"]["difference"] == 0
    assert lines["studies", "all items: this study", "AUC"]["second_value"] == 1
    assert lines["sources in both studies", "offline, subtle error: this study", "rate"]["difference"] == 0.5


def test_comparison_page_lists_studies_requests_the_job_and_shows_its_result(
    two_rated_studies, boss, client: Client
) -> None:
    first, _ = two_rated_studies
    client.force_login(boss)
    address = reverse("ratings:compare", args=[first.slug])
    page = client.get(address).content.decode()
    assert '<option value="second">Second</option>' in page and "Comparison of two studies" not in page
    waiting = client.get(address, {"with": "second"}).content.decode()
    assert "Comparison of two studies" in waiting
    csv = reverse("ratings:compare_csv", args=[first.slug]) + "?with=second"
    assert client.get(csv).status_code == 202
    run_until_idle()
    shown = client.get(address, {"with": "second"}).content.decode()
    assert "First minus Second" in shown and shown.count("<svg") >= 2 and "subtle error: this study" in shown
    assert Job.objects.filter(kind="comparison").count() == 1
    answer = client.get(csv)
    assert answer.status_code == 200 and "subtle error: this study" in answer.getvalue().decode()


def test_comparison_is_requested_again_after_another_rating(two_rated_studies, boss) -> None:
    first, second = two_rated_studies
    before = store.request_comparison(first, second, boss)
    run_until_idle()
    assert store.request_comparison(first, second, boss) == before
    second.raters.filter(label="R01").update(dropped=True, withdrawn_at=timezone.now())
    assert store.request_comparison(first, second, boss) != before


def test_comparison_offers_only_unblinded_studies_of_the_same_kind_in_which_the_user_has_a_role(
    two_rated_studies, boss, client: Client
) -> None:
    first, second = two_rated_studies
    analyst = User.objects.create_user("analyst")
    Membership.objects.create(study=first, user=analyst, role="analyst")
    assert list(store.find_comparable_studies(analyst, first)) == []
    client.force_login(analyst)
    address = reverse("ratings:compare", args=[first.slug])
    assert "No other study to compare with" in client.get(address).content.decode()
    assert client.get(address, {"with": "second"}).status_code == 404
    assert list(store.find_comparable_studies(boss, first)) == [second]
    sealed = study_factory.create_open_study(
        2, slug="sealed", sources=SOURCES, design="crossed", ratings_per_item=2, allow_unblinded=True
    )
    Study.objects.filter(pk=sealed.pk).update(created_by=boss)
    assert sealed not in store.find_comparable_studies(boss, first)
    client.force_login(boss)
    assert client.get(reverse("ratings:compare", args=["sealed"])).status_code == 404


def test_comparison_states_that_two_studies_have_no_raters_or_items_in_common(boss) -> None:
    run_factory.create_pool(8, ("caffeine",))
    first = create_rated_study(boss, "first", 1)
    first_pairs = set(first.items.values_list("pair_sha256", flat=True))
    played = run_factory.create_episode("zebrafish")
    for number in range(21, 29):
        run_factory.create_twin(run_factory.create_transition(played, number), "subtle")
    second = create_rated_study(boss, "second", 1, accounts="other", experiments=["zebrafish"])
    assert not first_pairs & set(second.items.values_list("pair_sha256", flat=True))
    lines = list_records(sections_contrasts.compare_studies(first, second))
    assert all("no rater and no item in common" in line["reason"] for line in lines if line["quantity"] == "rate")


def test_comparison_pairs_replicates_of_the_same_step_across_studies(boss) -> None:
    # The same action on the same materials in two experiments: other outcomes, the same pair.
    run_factory.create_pool(8, ("caffeine",))
    first = create_rated_study(boss, "first", 1, experiments=["caffeine"])
    run_factory.create_pool(8, ("zebrafish",))
    second = create_rated_study(boss, "second", 1, accounts="other", experiments=["zebrafish"])
    assert first.items.exclude(payload_sha256__in=second.items.values("payload_sha256")).count() == 8
    rate = next(
        line for line in list_records(sections_contrasts.compare_studies(first, second)) if line["quantity"] == "rate"
    )
    assert (rate["shared_items"] > 0, rate["shared_raters"]) == (True, 0)
