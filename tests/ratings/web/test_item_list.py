"""The list of a study's items: what it shows, its order, filters and search, and that it reads nothing while sealed."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ratings.models import Item, ItemSource, Rating, Study
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db
ADDRESS = "/studies/small-study/items/"


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def study(root: Client) -> Study:
    """An unblinded study of ten items, each of which two raters call plausible."""
    run_factory.create_pool(10)
    study = study_factory.create_open_study(2, ratings_per_item=2)
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    Rating.objects.update(verdict=True, cannot_judge=False, confidence=4)
    return study_factory.unblind_study(study, User.objects.get(username="root"))


def read_codes(page: Any) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/studies/small-study/items/([0-9a-f-]{36})/', page.content.decode())


def test_item_list_is_sealed_before_unblinding_and_reads_no_item(root: Client) -> None:
    run_factory.create_pool(10)
    study_factory.create_open_study(raters=2)
    with CaptureQueriesContext(connection) as asked:
        page = root.get(ADDRESS, {"source": "offline", "q": "transfer", "sort": "-source"}).content.decode()
    assert "Sealed" in page and "offline" not in page.replace("offline/", "")
    assert not any(model._meta.db_table in query["sql"] for query in asked for model in (Item, ItemSource, Rating))


def test_item_list_shows_names_and_counts_of_every_item(root: Client, study: Study) -> None:
    page = root.get(ADDRESS)
    assert sorted(read_codes(page)) == sorted(map(str, study.items.values_list("code", flat=True)))
    text = page.content.decode()
    for name, code in study.items.values_list("name", "code"):
        assert name and f"<bdi>{name}</bdi>" in text and str(code)[:8] in text
    assert text.count("2 of 2") == 10
    # Six twins are planted errors that both raters call plausible: a majority contradicts the reference.
    assert "6 disputed items." in text


def test_item_list_is_sorted_filtered_and_searched_by_its_url(root: Client, study: Study) -> None:
    planted = set(map(str, study.items.filter(source__reference="planted").values_list("code", flat=True)))
    assert len(planted) == 6
    assert set(read_codes(root.get(ADDRESS, {"show": "disputed"}))) == planted
    assert set(read_codes(root.get(ADDRESS, {"reference": "planted", "q": ""}))) == planted
    assert read_codes(root.get(ADDRESS, {"show": "unrated"})) == []
    code = next(iter(planted))
    assert read_codes(root.get(ADDRESS, {"q": code[:8]})) == [code]
    word = study.items.get(code=code).name.split(",")[0]
    expected = sorted(map(str, study.items.filter(name__icontains=word).values_list("code", flat=True)))
    assert sorted(read_codes(root.get(ADDRESS, {"q": word}))) == expected
    Rating.objects.filter(assignment__item__code=code)[0].delete()
    Rating.objects.filter(assignment__item__code=code).update(verdict=False)
    assert read_codes(root.get(ADDRESS, {"sort": "yes"}))[0] == code
    assert read_codes(root.get(ADDRESS, {"sort": "given"}))[0] == code
    assert read_codes(root.get(ADDRESS, {"sort": "-yes"}))[-1] == code


def test_item_list_ignores_values_that_the_study_does_not_have(root: Client, study: Study) -> None:
    assert len(read_codes(root.get(ADDRESS, {"q": "\0"}))) == 10
    assert "No item matches" in root.get(ADDRESS, {"q": "%"}).content.decode()
    assert len(read_codes(root.get(ADDRESS, {"source": "nobody", "show": "x", "sort": "password", "page": "99"}))) == 10


def test_item_list_takes_the_same_queries_for_any_number_of_items(root: Client, study: Study) -> None:
    def count(parameters: dict[str, str]) -> int:
        with CaptureQueriesContext(connection) as asked:
            root.get(ADDRESS, parameters)
        return len(asked)

    one = study.items.values_list("code", flat=True)[0]
    assert count({}) == count({"q": str(one)})
