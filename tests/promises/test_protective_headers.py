"""Security headers of every response, whatever became of the request; and the texts of error pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client
from django.urls import path

from wetbench_site import access_table, headers, loopback_only, urls

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
KEY = "sk-ant-of-the-laboratory"


def view_that_fails(request: HttpRequest) -> HttpResponse:
    key = KEY  # a local variable of the failed function, as in a real client
    raise RuntimeError(f"the provider refused {key}")


def view_that_streams(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(iter([b"a", b"b"]), content_type="text/csv")


def view_without_database(request: HttpRequest) -> HttpResponse:
    raise OperationalError("connection refused")


def view_with_other_headers(request: HttpRequest) -> HttpResponse:
    return HttpResponse("{}", headers={name: "*" for name, _ in headers.HEADERS if name != "Cache-Control"})


def view_with_rate_limit(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=429, headers={"Retry-After": "60"})


urlpatterns = [
    *urls.urlpatterns,
    path("fails/", view_that_fails, name="fails"),
    path("flows/", view_that_streams, name="flows"),
    path("many/", view_with_rate_limit, name="many"),
    path("away/", view_without_database, name="away"),
    path("careless/", view_with_other_headers, name="careless"),
]
handler400, handler500 = urls.handler400, urls.handler500

REQUESTS: dict[str, tuple[int, Callable[[Client], Any]]] = {
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
    """A client that may open the addresses added here."""
    for name in ("fails", "flows", "many", "away", "careless"):
        monkeypatch.setitem(access_table.ACCESS_TABLE, name, access_table.ACCESS_TABLE["login"])
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("name", REQUESTS)
def test_security_headers_are_in_every_response(visitor: Client, name: str) -> None:
    status, send_request = REQUESTS[name]
    if name in ("a fault", "a stream", "too many", "the database away", "a view that says otherwise"):
        visitor.force_login(User.objects.create_user("kim"))
    response = send_request(visitor)
    assert response.status_code == status
    is_cacheable = name == "a file of the site"  # the only kind of response that may be cached
    for header, value in headers.HEADERS:
        assert value in response[header] or (is_cacheable and header == "Cache-Control"), header
    assert ("no-store" in response["Cache-Control"]) != is_cacheable


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (status, _) in REQUESTS.items()
        if status in (400, 403, 404, 405, 413, 429, 500, 503) and "API" not in name
    ],
)
def test_error_pages_say_what_to_do_and_reveal_nothing(visitor: Client, name: str) -> None:
    visitor.force_login(User.objects.create_user("kim-the-visitor"))
    response = REQUESTS[name][1](visitor)
    page = response.content.decode()
    assert (
        page.count("<h1>") == 1 and "Go to the start page" in page and response["Content-Type"].startswith("text/html")
    )
    for secret in ("kim-the-visitor", KEY, "RuntimeError", "Traceback", settings.SECRET_KEY, "evil.example.org"):
        assert secret not in page


def test_content_security_policy_allows_only_files_of_the_site() -> None:
    parts = (part.split() for part in headers.CONTENT_SECURITY_POLICY.split(";"))
    policy = {name: set(allowed) for name, *allowed in parts}
    nothing = {"default-src", "base-uri", "frame-ancestors", "object-src"}
    assert policy == {name: {"'none'"} if name in nothing else {"'self'"} for name in policy}
    assert policy.keys() >= {*nothing, "script-src", "style-src", "form-action"}


def test_security_headers_are_in_rejections_that_are_sent_before_django_is_reached() -> None:
    received: dict[str, str] = {}
    environ = {"REMOTE_ADDR": "192.0.2.7"}
    body = loopback_only.serve_loopback_only(view_that_fails)(
        environ, lambda status, told: received.update(told, status=status)
    )  # type: ignore[arg-type]
    assert list(body) and received["status"] == "403 Forbidden" and received.items() >= dict(headers.HEADERS).items()


def test_error_for_an_htmx_fragment_has_no_body(visitor: Client) -> None:
    assert visitor.put("/login/", headers={"HX-Request": "true"}).content == b""


def test_error_pages_keep_retry_after_and_allow_headers(visitor: Client) -> None:
    visitor.force_login(User.objects.create_user("kim"))
    assert visitor.get("/many/")["Retry-After"] == "60"
    assert visitor.put("/login/")["Allow"]


def test_pages_of_signed_in_users_are_never_cached(visitor: Client) -> None:
    visitor.force_login(User.objects.create_superuser("root"))
    for address in ("/", "/studies/", "/episodes/", "/models/", "/benchmarks/", "/admin/", "/nowhere/"):
        response = visitor.get(address)
        assert "no-store" in response["Cache-Control"], address
        assert not {"ETag", "Last-Modified", "Server-Timing"} & set(response.headers), address
