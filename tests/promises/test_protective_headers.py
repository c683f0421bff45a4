"""What every response carries, whatever became of the request; and what pages of errors say."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client
from django.urls import path

from wetbench_site import access_table, headers, loopback, urls

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
KEY = "sk-ant-of-the-laboratory"


def fails(request: HttpRequest) -> HttpResponse:
    held = KEY  # in the locals of what failed, as a key is in those of a client
    raise RuntimeError(f"the provider refused {held}")


def flows(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([b"a", b"b"]), content_type="text/csv")


def database_away(request: HttpRequest) -> HttpResponse:
    raise OperationalError("connection refused")


def careless(request: HttpRequest) -> HttpResponse:
    return HttpResponse("{}", headers={name: "*" for name, _ in headers.HEADERS if name != "Cache-Control"})


def too_many(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=429, headers={"Retry-After": "60"})


urlpatterns = [
    *urls.urlpatterns,
    path("fails/", fails, name="fails"),
    path("flows/", flows, name="flows"),
    path("many/", too_many, name="many"),
    path("away/", database_away, name="away"),
    path("careless/", careless, name="careless"),
]
handler400, handler500 = urls.handler400, urls.handler500

ANSWERS: dict[str, tuple[int, Callable[[Client], Any]]] = {
    "a page": (200, lambda client: client.get("/login/")),
    "a redirect": (302, lambda client: client.get("/studies/")),
    "a fragment refused": (401, lambda client: client.get("/studies/", headers={"HX-Request": "true"})),
    "a host that is not ours": (400, lambda client: client.get("/login/", headers={"Host": "evil.example.org"})),
    "a form from elsewhere": (403, lambda client: Client(enforce_csrf_checks=True).post("/login/", {"username": "a"})),
    "nothing there": (404, lambda client: client.get("/nowhere/")),
    "another method": (405, lambda client: client.put("/login/")),
    "too large": (413, lambda client: client.post("/login/", {"username": "a" * (1 << 21)})),
    "too many": (429, lambda client: client.get("/many/")),
    "a fault": (500, lambda client: client.get("/fails/")),
    "the database away": (503, lambda client: client.get("/away/")),
    "a view that says otherwise": (200, lambda client: client.get("/careless/")),
    "health": (200, lambda client: client.get("/healthz")),
    "numbers": (200, lambda client: client.get("/metrics")),
    "an answer of the API": (401, lambda client: client.get("/api/v1/studies")),
    "the description of the API": (200, lambda client: client.get("/api/v1/openapi.json")),
    "nothing there in the API": (404, lambda client: client.get("/api/v1/nowhere")),
    "a stream": (200, lambda client: client.get("/flows/")),
    "a file of the site": (200, lambda client: client.get("/static/site.css")),
}  # fmt: skip


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Signed in, but where the answer is one to a stranger."""
    for name in ("fails", "flows", "many", "away", "careless"):
        monkeypatch.setitem(access_table.TABLE, name, access_table.TABLE["login"])
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("name", ANSWERS)
def test_every_response_carries_the_headers(visitor: Client, name: str) -> None:
    status, ask = ANSWERS[name]
    if name in ("a fault", "a stream", "too many", "the database away", "a view that says otherwise"):
        visitor.force_login(User.objects.create_user("kim"))
    response = ask(visitor)
    assert response.status_code == status
    kept = name == "a file of the site"  # the one kind of answer that caches may keep
    for header, value in headers.HEADERS:
        assert value in response[header] or (kept and header == "Cache-Control"), header
    assert ("no-store" in response["Cache-Control"]) != kept


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (status, _) in ANSWERS.items()
        if status in (400, 403, 404, 405, 413, 429, 500, 503) and "API" not in name
    ],
)
def test_a_page_of_an_error_says_what_to_do_and_nothing_of_anybody(visitor: Client, name: str) -> None:
    visitor.force_login(User.objects.create_user("kim-the-visitor"))
    response = ANSWERS[name][1](visitor)
    page = response.content.decode()
    assert (
        page.count("<h1>") == 1 and "Go to the start page" in page and response["Content-Type"].startswith("text/html")
    )
    for secret in ("kim-the-visitor", KEY, "RuntimeError", "Traceback", settings.SECRET_KEY, "evil.example.org"):
        assert secret not in page


def test_the_policy_lets_nothing_run_or_load_but_what_the_site_serves() -> None:
    parts = (part.split() for part in headers.CONTENT_SECURITY_POLICY.split(";"))
    policy = {name: set(allowed) for name, *allowed in parts}
    nothing = {"default-src", "base-uri", "frame-ancestors", "object-src"}
    assert policy == {name: {"'none'"} if name in nothing else {"'self'"} for name in policy}
    assert policy.keys() >= {*nothing, "script-src", "style-src", "form-action"}


def test_who_is_turned_away_before_the_site_is_asked_gets_them_too() -> None:
    got: dict[str, str] = {}
    asked = {"REMOTE_ADDR": "192.0.2.7"}
    answer = loopback.loopback_alone(fails)(asked, lambda status, told: got.update(told, status=status))  # type: ignore[arg-type]
    assert list(answer) and got["status"] == "403 Forbidden" and got.items() >= dict(headers.HEADERS).items()


def test_an_error_for_a_fragment_is_its_status_alone(visitor: Client) -> None:
    assert visitor.put("/login/", headers={"HX-Request": "true"}).content == b""


def test_what_says_when_to_come_again_still_does_so_with_a_page(visitor: Client) -> None:
    visitor.force_login(User.objects.create_user("kim"))
    assert visitor.get("/many/")["Retry-After"] == "60"
    assert visitor.put("/login/")["Allow"]


def test_no_page_of_somebody_signed_in_may_be_kept_by_a_cache(visitor: Client) -> None:
    visitor.force_login(User.objects.create_superuser("root"))
    for address in ("/", "/studies/", "/episodes/", "/models/", "/benchmarks/", "/admin/", "/nowhere/"):
        response = visitor.get(address)
        assert "no-store" in response["Cache-Control"], address
        assert not {"ETag", "Last-Modified", "Server-Timing"} & set(response.headers), address
