"""Hostile addresses, queries, cookies and forms: every page answers, none fails, and none redirects to another site."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.http.cookie import SimpleCookie
from django.test import Client

from tests.support.access_world import World, list_urls
from wetbench_site.access_table import ACCESS_TABLE

pytestmark = pytest.mark.django_db
HOSTILE = (
    "=cmd|'/c'!A1<script>alert(1)</script>{{7*7}}{% load x %}", "../../../../etc/passwd", "\0", "a\r\nSet-Cookie: evil=1",
    "\u202egnp.exe\u200b", "9" * 400, "-1", "1e400", "NaN", "[]", "' OR 1=1 --", "x" * 4_000, "\ud83d\ude00",
)  # fmt: skip
# The query parameters and form fields that pages use; they ignore all others.
QUERY_NAMES = (
    "page", "step", "show", "item", "all", "job", "state", "experiments", "experiment", "action", "shown", "next", "error",
    "truth", "source", "rater", "who", "cast", "run", "counted", "status", "kind", "perturbation", "context", "pause",
)  # fmt: skip
FIELD_NAMES = (
    "name", "question", "guide", "email", "emails", "people", "role", "count", "raters", "verdict", "confidence", "note",
    "marks", "submission_id", "revision", "stage", "cannot_judge", "do", "token", "job", "variant", "casts", "replicates",
    "seed", "experiment", "experiments", "perturbations", "document", "reason", "decision", "password", "username",
    "label", "degree", "years", "field", "answer", "answers", "display", "sources", "run", "budget", "items", "user",
)  # fmt: skip
# Attacks on a list that filters by column names.
COLUMN_LOOKUPS = (
    "created_by__password", "user__password__startswith", "_connector", "_negated", "pk__in", "id__regex", "order_by", "ordering",
    "sort", "filter", "items__source__truth", "raters__user__email", "__class__", "?__", "__", "o", "q", "fields",
)  # fmt: skip


def send_and_roll_back(client: Client, method: str, path: str, **more: Any) -> Any:
    """Return the response, and roll back whatever the request changed."""
    with transaction.atomic():
        response = client.generic(method, path, **more)
        transaction.set_rollback(True)
    return response


def iter_clients(world: World) -> Iterator[tuple[str, Client]]:
    for person in ("superuser", "rater"):
        client = Client(raise_request_exception=False)
        client.cookies = SimpleCookie(world.cookies[person].output(header="", sep=";"))
        yield person, client


def is_granted(name: str, person: str, method: str) -> bool:
    return any(method in ACCESS_TABLE[name][role] for role in ("superuser",) if person == "superuser") or any(
        method in ACCESS_TABLE[name][role] for role in ("account", "rater") if person == "rater"
    )


def iter_pages(world: World, person: str, method: str) -> Iterator[str]:
    for name in sorted(list_urls()):
        if is_granted(name, person, method) and name != "readyz":  # may answer 503 while a service is not ready
            yield world.build_path(name)


def iter_queries() -> Iterator[str]:
    for index in range(0, len(HOSTILE), 3):
        yield urlencode(
            {name: HOSTILE[(index + n) % len(HOSTILE)] for n, name in enumerate(QUERY_NAMES)}, errors="surrogatepass"
        )
    yield "page=%ff%fe&job=%00&step=%c3%28&%ff=%00&=&&&=x&page[]=1&page=1&page=2"
    yield urlencode(dict.fromkeys(COLUMN_LOOKUPS, "1"))


def test_pages_survive_hostile_query_strings(world: World) -> None:
    failed = [
        f"{person} {path}?{query[:200]}: {response.status_code}"
        for person, client in iter_clients(world)
        for path in iter_pages(world, person, "GET")
        for query in iter_queries()
        if (response := send_and_roll_back(client, "GET", path, QUERY_STRING=query)).status_code >= 500
    ]
    assert failed == []


def test_pages_survive_hostile_form_values(world: World) -> None:
    form = "application/x-www-form-urlencoded"
    bodies = [
        (
            urlencode(
                {name: HOSTILE[(n * 5 + index) % len(HOSTILE)] for n, name in enumerate(FIELD_NAMES)},
                errors="surrogatepass",
            ),
            form,
        )
        for index in range(2)
    ] + [("%ff=%00&note=%ff%fe&verdict=yes&verdict=no", form), ('{"a": ' * 2_000, "application/json")]
    failed = [
        f"{person} {path} {body[:200]}: {response.status_code}"
        for person, client in iter_clients(world)
        for path in iter_pages(world, person, "POST")
        for body, content_type in bodies
        if (response := send_and_roll_back(client, "POST", path, data=body, content_type=content_type)).status_code
        >= 500
    ]
    assert failed == []


PATHS = (
    "/%00", "/%ff%fe/", "/rate/%00/", "/studies/..%2f..%2fetc%2fpasswd/", "/studies/walked%00/", "/studies/walked/figures/..%2f..%2fx.svg",
    "/static/../wetbench_site/settings.py", "/static/%2e%2e/%2e%2e/etc/passwd", "/static/..%5c..%5csecret_key", "//evil.example.org/%2f..",
    "/jobs/0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55/files/99999999999999999999999/", "/studies/walked/members/99999999999999999999/remove/",
    "/in/%0d%0aSet-Cookie:%20evil=1/", "/" + "a" * 5_000 + "/", "/studies/walked/raters/%F0%9F%98%80/link/", "/login/%0d%0aX: y",
)  # fmt: skip


def test_invalid_addresses_reveal_nothing_and_redirect_to_no_other_site(world: World) -> None:
    for path, (person, client) in product(PATHS, iter_clients(world)):
        response = send_and_roll_back(client, "GET", path)
        assert response.status_code in (301, 302, 400, 404, 405), (person, path)
        assert "evil" not in str(response.cookies) and "root:" not in response.content.decode(errors="replace")
        assert not response.headers.get("Location", "").startswith(("//", "http"))


def test_forged_cookies_and_headers_give_no_session(world: World) -> None:
    client = Client(raise_request_exception=False)
    for value in (*HOSTILE, "\xff\xfe", '"; wb_session=x', "=" * 300):
        raw = value.encode("utf-8", "replace").decode("latin-1").replace("\r", "").replace("\n", "")
        cookie = {"HTTP_COOKIE": f"wb_session={raw}; wb_csrf={raw}; messages={raw}; {raw}"}
        for path in ("/", "/login/", "/studies/", "/rate/"):
            assert send_and_roll_back(client, "GET", path, **cookie).status_code in (200, 302)
        forged_headers = {
            "HTTP_HX_REQUEST": raw,
            "HTTP_HX_CURRENT_URL": raw,
            "HTTP_ACCEPT_LANGUAGE": raw,
            "HTTP_REFERER": raw,
            "HTTP_X_FORWARDED_FOR": raw,
        }
        assert send_and_roll_back(client, "GET", "/studies/", **forged_headers).status_code == 302


def test_ten_thousand_query_parameters_are_rejected(world: World) -> None:
    for person, client in iter_clients(world):
        for path in ("/rate/", "/login/") if person == "rater" else ("/studies/", "/episodes/", "/studies/walked/"):
            assert send_and_roll_back(
                client, "GET", path, QUERY_STRING="&".join(f"a{n}=1" for n in range(10_000))
            ).status_code in (
                200,
                302,
                400,
            )


HOSTS = (
    "evil.example.org",
    "testserver.evil.example.org",
    "testserver:80@evil.example.org",
    "",
    "[::",
    "test server",
    "x" * 3_000,
)


def test_requests_with_a_foreign_host_name_are_rejected(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    for host in HOSTS:
        response = send_and_roll_back(Client(), "GET", "/login/", HTTP_HOST=host, HTTP_X_FORWARDED_HOST="testserver")
        assert response.status_code == 400 and b"evil" not in response.content, host


def test_lists_ignore_query_parameters_named_like_columns(world: World) -> None:
    """Names of columns and of relations neither sort nor filter."""
    affected = []
    for person, client in iter_clients(world):
        for path in iter_pages(world, person, "GET"):
            unfiltered = send_and_roll_back(client, "GET", path)
            if (
                unfiltered.status_code != 200
                or unfiltered.streaming
                or not unfiltered["Content-Type"].startswith("text/html")
            ):
                continue
            for lookups in (COLUMN_LOOKUPS, [f"{name}__isnull" for name in COLUMN_LOOKUPS]):
                query = urlencode(dict.fromkeys(lookups, "pbkdf2"))
                response = send_and_roll_back(client, "GET", path, QUERY_STRING=query)
                if response.status_code != 400 and _strip_variable_text(unfiltered, query) != _strip_variable_text(
                    response, query
                ):
                    affected.append(f"{person} {path}?{query[:8]}")
    assert affected == []


def _strip_variable_text(response: Any, query: str) -> str:
    """Return the page without values that are new each time, and without the query where the page reports that it was ignored."""
    text = re.sub(r"[A-Za-z0-9]{64}|[0-9a-f]{8}-[0-9a-f-]{27}", "", response.content.decode())
    return text.replace(f"?{query.replace('&', '&amp;')}", "")


FOREIGN_ADDRESSES = (
    "https://evil.example.org/", "//evil.example.org", "/\\evil.example.org", "\\\\evil.example.org", "https:evil.example.org",
    "javascript:alert(1)", " //evil.example.org", "/\t/evil.example.org", "http:///evil.example.org", "https://testserver@evil.example.org/",
)  # fmt: skip


def test_next_parameter_never_redirects_to_another_site(world: World) -> None:
    User.objects.create_user("kim", password="seven grey pipettes")
    for target in FOREIGN_ADDRESSES:
        for location in _collect_redirects(world, target):
            assert location.startswith("/") and not location.startswith(("//", "/\\", "/\t")), (target, location)


def _collect_redirects(world: World, to: str) -> list[str]:
    form = {"username": "kim", "password": "seven grey pipettes", "next": to}
    responses = [Client().post("/login/", form), Client().post(f"/login/?next={quote(to)}", form)]
    for _, client in iter_clients(world):
        responses += [
            send_and_roll_back(client, "GET", f"/login/?next={quote(to)}"),
            send_and_roll_back(client, "GET", f"/?next={quote(to)}"),
        ]
        responses.append(
            send_and_roll_back(
                client,
                "POST",
                f"/logout/?next={quote(to)}",
                data=urlencode({"next": to}),
                content_type="application/x-www-form-urlencoded",
            )
        )
    return [response.headers.get("Location", "/") for response in responses]
