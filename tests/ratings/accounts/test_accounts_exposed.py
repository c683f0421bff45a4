"""Test of signing in to a production site behind an HTTPS proxy, with password and two-factor code."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import connection
from django_otp.plugins.otp_totp.models import TOTPDevice

from ratings.accounts import signing_in, two_factor
from tests.support.account_steps import PASSWORD, compute_app_code
from tests.support.services import find_free_port

PROXIED = {"Host": "lab.example.org", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
pytestmark = [pytest.mark.django_db(transaction=True)]


class Browser:
    """A client that keeps cookies like a browser and sends the headers of a proxy."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, SimpleCookie()

    def ask(
        self, method: str, path: str, sent: dict[str, str] | None = None, **headers: str
    ) -> http.client.HTTPResponse:
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        said = "; ".join(f"{one.key}={one.value}" for one in self.cookies.values())
        told = PROXIED | {"Cookie": said, "Origin": "https://lab.example.org"} | headers
        form = {"Content-Type": "application/x-www-form-urlencoded"} if sent is not None else {}
        caller.request(method, path, urlencode(sent) if sent is not None else None, told | form)
        answer = caller.getresponse()
        for line in answer.headers.get_all("Set-Cookie", []):
            self.cookies.load(line)
        return answer

    def read(self, path: str) -> str:
        return self.ask("GET", path).read().decode()

    def send(self, path: str, page: str, **fields: str) -> http.client.HTTPResponse:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token, page[:2000]
        return self.ask("POST", path, fields | {"csrfmiddlewaretoken": token[1]})


@pytest.fixture
def production_site(tmp_path: Path) -> Iterator[tuple[Browser, Path]]:
    """Run gunicorn with the production profile on this test's database."""
    port, log = find_free_port(), tmp_path / "log"
    environ = {
        **os.environ,
        "WETBENCH_PROFILE": "production",
        "SECRET_KEY": "k" * 20 + "0123456789abcdefghijABCDEFGHIJ",
        "WETBENCH_HOSTS": "lab.example.org",
        "WETBENCH_URL": "https://lab.example.org",
        "WETBENCH_PROXIES": "1",
        "WETBENCH_WEB_WORKERS": "1",
        "WETBENCH_VAR_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
    }
    command = [sys.executable, "-m", "gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "-b", f"127.0.0.1:{port}"], cwd=settings.BASE_DIR, env=environ, stdout=file, stderr=file
        )
    try:
        browser, end = Browser(port), time.monotonic() + 60
        while True:
            try:
                browser.ask("GET", "/healthz")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.1)
        yield browser, log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_superuser_signs_in_to_a_production_site_with_password_and_code(
    production_site: tuple[Browser, Path],
) -> None:
    browser, log = production_site
    hashed = make_password(PASSWORD, hasher=signing_in.Argon2())
    root = User.objects.create(username="root", password=hashed, is_staff=True, is_superuser=True)
    plain = browser.ask("GET", "/login/", **{"X-Forwarded-Proto": "http"})
    assert (plain.status, plain.headers["Location"]) == (301, "https://lab.example.org/login/")
    page = browser.ask("GET", "/login/")
    assert page.headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    first = browser.send("/login/", page.read().decode(), username="root", password=PASSWORD)
    assert (first.status, first.headers["Location"]) == (302, "/")
    assert browser.ask("GET", "/studies/").headers["Location"] == "/account/second-step/"
    assert browser.ask("GET", "/admin/").status == 404
    browser.send("/account/second-step/", browser.read("/account/second-step/"), do="begin")
    device = TOTPDevice.objects.get(user=root)
    done = browser.send(
        "/account/second-step/", browser.read("/account/second-step/"), do="turn on", code=compute_app_code(device)
    )
    backup = re.findall(r"<code>([\w-]+)</code>", done.read().decode())
    assert done.status == 200 and len(backup) == 10
    assert browser.ask("GET", "/admin/").status == 200

    other = Browser(browser.port)
    said = other.send("/login/", other.read("/login/"), username="root", password=PASSWORD)
    assert said.headers["Location"] == "/login/code/"
    assert other.ask("GET", "/studies/").headers["Location"] == "/login/?next=/studies/"
    in_ = other.send("/login/code/", other.read("/login/code/"), code=compute_app_code(device, 1))
    assert in_.status == 302 and other.ask("GET", "/studies/").status == 200
    check_cookie_flags(in_.headers.get_all("Set-Cookie", []))
    told = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    events = [(one["event"], one["address"]) for one in told if one["logger"] == "wetbench.security"]
    assert events == [(name, "203.0.113.9") for name in ("signed in", "second step on", "signed in")]
    shown = log.read_text()
    for secret in (PASSWORD, *backup, two_factor.format_secret(device), other.cookies["__Host-wb_session"].value):
        assert secret not in shown and secret.replace(" ", "") not in shown


def check_cookie_flags(cookies: list[str]) -> None:
    flags = {one.partition("=")[0]: {part.strip().lower() for part in one.split(";")[1:]} for one in cookies}
    assert set(flags) == {"__Host-wb_session", "__Host-wb_csrf"}
    for said in flags.values():
        assert {"secure", "path=/", "samesite=lax"} <= said and not [part for part in said if "domain" in part]
    assert "httponly" in flags["__Host-wb_session"]
