"""Log lines: their content, and what they must never contain."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client, RequestFactory
from django.urls import get_resolver
from django.views.debug import ExceptionReporter, get_exception_reporter_class
from pytest_django.fixtures import Settings

from simulation.models import ModelCall
from tests.support.model_server import Server
from tests.support.unit_scenario import UnitScenario
from wetbench_site.observability import log_context, logs
from wetbench_site.observability.logs import log_security_event
from wetbench_site.observability.redaction import HIDDEN, Redactor

SECRET = "hunter2-correct-horse"
DATABASE = "postgres://wetbench:p%40ss-word-1@db.example/site"


def held_in_a_local() -> Any:
    try:
        held = "-".join(["sk", "kept", "in", "a", "local"])
        raise ValueError(len(held))
    except ValueError:
        return sys.exc_info()


class Written:
    """The log lines of a site with these settings."""

    def __init__(self, form: str) -> None:
        made = logs.build_logging_config(form, "INFO", {SECRET, DATABASE})
        self.handler = logs.RedactedHandler(made["handlers"]["console"]["secrets"])
        self.handler.setFormatter({"json": logs.JsonLineFormatter, "line": logs.LineFormatter}[form]())
        self.handler.setStream(io.StringIO())

    @property
    def text(self) -> str:
        return str(self.handler.stream.getvalue())

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture(params=["json", "line"])
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    yield from caught(request.param)


@pytest.fixture
def as_json() -> Iterator[Written]:
    yield from caught("json")


def caught(form: str) -> Iterator[Written]:
    made, root = Written(form), logging.getLogger()
    root.addHandler(made.handler)
    yield made
    root.removeHandler(made.handler)


log = logging.getLogger("wetbench.tests")


def test_json_line_has_time_level_logger_message_and_facts(as_json: Written) -> None:
    log.warning("%d rows of %s", 7, "workers", extra={"facts": {"rows": 7}})
    (line,) = as_json.lines
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "WARNING", "logger": "wetbench.tests", "message": "7 rows of workers", "rows": 7}


def test_log_line_of_a_unit_has_its_row_and_step(as_json: Written) -> None:
    with log_context.bind_facts("episode", "0f5c2a52", step=3, phase="agent"):
        log.info("one")
    log.info("two")
    one, two = as_json.lines
    assert (one["episode"], one["step"], one["phase"]) == ("0f5c2a52", 3, "agent") and "episode" not in two


def test_log_context_of_an_outer_block_applies_again_when_an_inner_block_ends() -> None:
    with log_context.bind_facts("job", "a"):
        with log_context.bind_facts("twin", "b"):
            assert log_context.bound_facts() == {"twin": "b"}
        assert log_context.bound_facts() == {"job": "a"}
    assert log_context.bound_facts() == {}


@pytest.mark.parametrize(
    "told",
    [
        SECRET, DATABASE, "p%40ss-word-1", "p@ss-word-1", "sk-ant-api03-abcdefghijkl", "Authorization: Bearer abc.def",
        "wb_session=k3jd8s7dh2kd9", "__Host-wb_session=k3jd8s7dh2kd9", "Cookie: a=b; c=d", "{'wb_csrf': 'Qwertyuiop'}",
        "GET /r/Zm9vYmFyYmF6cXV4cXV1eA/ 404", "/sign-in/Zm9vYmFyYmF6cXV4cXV1eA/",
    ],
)  # fmt: skip
def test_credentials_are_hidden_in_every_part_of_a_log_line(told: str, written: Written) -> None:
    opening = {
        "Authorization: Bearer abc.def": "abc.def", "wb_session=k3jd8s7dh2kd9": "k3jd8s7dh2kd9",
        "__Host-wb_session=k3jd8s7dh2kd9": "k3jd8s7dh2kd9", "Cookie: a=b; c=d": "c=d", "{'wb_csrf': 'Qwertyuiop'}": "Qwerty",
        "GET /r/Zm9vYmFyYmF6cXV4cXV1eA/ 404": "Zm9v", "/sign-in/Zm9vYmFyYmF6cXV4cXV1eA/": "Zm9v",
    }.get(told, told)  # fmt: skip
    log.warning("said: %s", told)
    log.warning(f"said: {told}", extra={"facts": {"said": told}})
    with log_context.bind_facts("job", told):
        log.warning("a line")
    try:
        raise OSError(told)
    except OSError:
        log.exception("a fault")
    assert opening not in written.text and written.text.count(HIDDEN) >= 5


def test_redaction_does_not_change_ordinary_words() -> None:
    said = "/rate/study/ sketch-like tasks of R07: /r/ask, /sign-in/ short, 12 sk-ills, Basics, cookies"
    assert Redactor({SECRET, "abc"})(said) == said


def test_log_line_cannot_be_forged_or_reordered_by_its_text(written: Written) -> None:
    forged = "a\n2026-01-01 ERROR forged\r\x1b[2J\u202eb\u2028c\ud800"
    # Passed to the handler directly: pytest would keep the lone surrogate, which xdist cannot send between processes.
    written.handler.handle(log.makeRecord(log.name, logging.WARNING, __file__, 1, "name: %s", (forged,), None))
    log.warning("second")
    assert len(written.text.splitlines()) == 2
    assert not {"\x1b", "\r", "\u202e", "\u2028", "\ud800"} & set(written.text)
    assert "forged" in written.text


def test_logged_exception_has_its_location_and_type_but_not_its_message(written: Written) -> None:
    def read(reply: str) -> None:
        try:
            int(reply)
        except ValueError as error:
            raise KeyError(reply) from error

    try:
        read("the patient's secret reply")
    except KeyError:
        log.exception("a unit failed")
    assert "in read" in written.text and "builtins.ValueError" in written.text and "builtins.KeyError" in written.text
    assert "patient" not in written.text and "invalid literal" not in written.text


def test_redaction_does_not_change_the_log_record(as_json: Written, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("%s", SECRET)
    assert caplog.records[-1].exc_info and caplog.records[-1].args == (SECRET,)


def requests(written: Written) -> list[dict[str, Any]]:
    return [line for line in written.lines if line["logger"] == "wetbench.requests"]


@pytest.mark.django_db
def test_request_log_has_one_line_with_id_user_page_status_and_time(
    client: Client, settings: Settings, as_json: Written
) -> None:
    user = User.objects.create_user("ann")
    client.force_login(user)
    answer = client.get("/studies/nowhere/")
    assert answer.status_code == 404 and requests(as_json) == []  # only with WETBENCH_REQUEST_LOG
    settings.REQUEST_LOG = True
    answer = client.get("/studies/nowhere/")
    (line,) = requests(as_json)
    assert line["request"] == answer["X-Request-ID"] and line["user"] == user.pk and line["status"] == 404
    assert (line["view"], line["message"]) == ("ratings:study", "GET ratings:study") and 0 < line["ms"] < 60_000
    assert "nowhere" not in as_json.text


@pytest.mark.django_db
def test_exception_of_a_page_is_logged_with_its_request_and_without_its_message(
    client: Client, as_json: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in_urls = get_resolver().url_patterns[1].url_patterns
    (home,) = (pattern for pattern in sign_in_urls if pattern.name == "home")
    monkeypatch.setattr(home, "callback", broken)
    client.raise_request_exception = False
    answer = client.get("/")
    assert answer.status_code == 500
    line = next(line for line in as_json.lines if "exception" in line)
    assert (line["logger"], line["request"], line["view"]) == ("django.request", answer["X-Request-ID"], "home")
    assert "in broken" in line["exception"] and "a reply of a model" not in as_json.text


@login_not_required
def broken(request: Any) -> None:
    raise ValueError("a reply of a model")


def test_exception_report_shows_no_local_variables() -> None:
    request, fault = RequestFactory().get("/"), held_in_a_local()
    reporter = get_exception_reporter_class(request)
    assert reporter is not ExceptionReporter
    for asked, shown in ((ExceptionReporter, True), (reporter, False)):
        assert ("sk-kept-in-a-local" in asked(request, *fault).get_traceback_html()) is shown


def test_security_event_has_its_name_account_and_address(as_json: Written) -> None:
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.7")
    request.user = AnonymousUser()
    log_security_event("sign-in failed", request, name="ann\nb")
    request.user = User(pk=7, username="ann")
    log_security_event("export", request, study="one")
    log_security_event("second step reset", None, user=3)
    one, two, three = as_json.lines
    assert {line["logger"] for line in as_json.lines} == {"wetbench.security"}
    assert (one["event"], one["name"], one["address"]) == ("sign-in failed", "ann\\nb", "192.0.2.7") and "by" not in one
    assert (two["event"], two["by"], two["study"]) == ("export", 7, "one")
    assert (three["event"], three["user"]) == ("second step reset", 3)


@pytest.mark.django_db
@pytest.mark.parametrize("fault", ["wrong_enum", "unauthorized_401"])
def test_provider_error_logs_no_prompt_reply_or_key(fault: str, model_server: Server, as_json: Written) -> None:
    scene = UnitScenario(model_server, "transition")
    scene.run_with_fault({"fault": fault})
    assert scene.current_row.status in ("failed", "blocked") and ModelCall.objects.count() > 0
    line = as_json.lines[-1]
    assert (line["episode"], line["step"], line["phase"]) == (str(scene.code), 1, "transition")
    quoted = [b"lukewarm", b"See what is in the tubes", b"Is it clear?", b"dummy-openai", b"tea"]
    said = b"".join(call.reply or b"" for call in ModelCall.objects.all())
    assert fault != "wrong_enum" or quoted[0] in said, "the reply has the text that must not be logged"
    assert not [word for word in quoted if word in as_json.text.encode()]


def test_logging_has_one_handler_for_django_and_all_servers() -> None:
    made = logs.build_logging_config("json", "INFO", set())
    assert made["root"]["handlers"] == ["console"] and list(made["handlers"]) == ["console"]
    assert all(logger["handlers"] == [] and logger["propagate"] for logger in made["loggers"].values())


def test_command_error_is_redacted_unless_traceback_is_requested(tmp_path: Path) -> None:
    key = "a-key-that-no-shape-tells-of"
    command = [sys.executable, "manage.py", "shell", "-c", f"raise OSError('no reply from {key}')"]
    environ = {**os.environ, "LOCAL_API_KEY": key, "WETBENCH_VAR_DIR": str(tmp_path)}
    plain, whole = (
        subprocess.run([*command, *more], cwd=site.BASE_DIR, env=environ, capture_output=True, text=True)
        for more in ([], ["--traceback"])
    )
    assert (plain.returncode, whole.returncode) == (1, 1)
    assert "ERROR wetbench.commands the command failed" in plain.stderr
    assert f"OSError: no reply from {HIDDEN}" in plain.stderr and key not in plain.stderr
    assert key in whole.stderr and "Traceback" in whole.stderr
