"""Lists that are sorted and searched by their URL."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import RequestFactory

from wetbench_site.sorted_lists import Column, Sorting, match_words

pytestmark = pytest.mark.django_db
COLUMNS = (
    Column("name", "Name", ("last_name", "first_name")),
    Column("seen", "Last seen", ("last_login",), falls_first=True, has_nulls=True),
    Column("", "Role"),
)


def sort_by(value: str) -> Sorting:
    return Sorting(COLUMNS, {"sort": value} if value else {}, "name")


def create_user(name: str, first: str, last: str, day: int | None = None) -> None:
    seen = datetime(2026, 5, day, tzinfo=UTC) if day else None
    User.objects.create(username=name, first_name=first, last_name=last, last_login=seen)


@pytest.fixture
def users() -> None:
    create_user("c", "Ada", "Byron", 3)
    create_user("a", "Rosalind", "Franklin")
    create_user("b", "Anne", "Byron", 9)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("", ["c", "b", "a"]),  # Byron Ada, Byron Anne, Franklin Rosalind
        ("-name", ["a", "b", "c"]),
        ("-seen", ["b", "c", "a"]),  # never seen: last
        ("seen", ["c", "b", "a"]),  # and last here too
        ("password", ["c", "b", "a"]),  # no column of the list: its default order
        ("-", ["c", "b", "a"]),
    ],
)
def test_list_is_in_the_order_that_the_url_asks_for(users: None, sort: str, names: list[str]) -> None:
    assert [user.username for user in sort_by(sort).order_rows(User.objects.all())] == names


def test_list_orders_equal_rows_by_their_keys() -> None:
    for name in ("x", "y", "z"):
        create_user(name, "Ada", "Byron")
    assert [user.username for user in sort_by("name").order_rows(User.objects.all())] == ["x", "y", "z"]
    assert [user.username for user in sort_by("-name").order_rows(User.objects.all())] == ["z", "y", "x"]


def test_heading_of_the_current_column_reverses_the_order_and_others_start_with_their_own() -> None:
    by_name, by_time, role = sort_by("name").headings
    assert (by_name.direction, by_name.sort) == ("ascending", "-name")
    assert (by_time.direction, by_time.sort) == ("", "-seen")
    assert (role.direction, role.sort) == ("", "")
    assert [(one.direction, one.sort) for one in sort_by("-seen").headings][:2] == [
        ("", "name"),
        ("descending", "seen"),
    ]


def test_heading_link_keeps_the_filters_of_the_url_and_leaves_its_page() -> None:
    request: Any = RequestFactory().get("/list/", {"q": "ada", "page": "3"})
    html = render_to_string("_list_head.html", {"sorting": sort_by("name")}, request)
    assert 'href="?q=ada&amp;sort=-seen"' in html
    assert 'aria-sort="ascending"><a href="?q=ada&amp;sort=-name">Name</a>' in html
    assert html.count("<a ") == 2


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("byron", ["b", "c"]),
        ("BYRON ann", ["b"]),
        ("ada franklin", []),  # each word matches somebody, but nobody has both
        ("  ", ["a", "b", "c"]),
        ("ada\0", ["c"]),
        ("%", []),
    ],
)
def test_search_finds_rows_with_every_word(users: None, text: str, names: list[str]) -> None:
    rows = User.objects.filter(match_words(text, "first_name", "last_name"))
    assert sorted(user.username for user in rows) == names
