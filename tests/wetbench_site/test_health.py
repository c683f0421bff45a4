"""/healthz, /readyz and /metrics: their content, who may read them, and their time limit if a service hangs."""

import logging
import re
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import DjangoAssertNumQueries, Settings

from simulation import monitoring
from simulation.models import ModelCall, Worker
from tests.support.model_server import Server
from tests.support.services import RedisServer
from tests.support.unit_scenario import UnitScenario
from wetbench_site.observability import health, registry

TOKEN = "a-token-for-prometheus-alone"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client() -> Client:
    """Requests from this machine, under its own name."""
    return Client(headers={"host": "127.0.0.1"})


@pytest.fixture
def worker() -> Worker:
    """The embedded worker, active just now."""
    return Worker.objects.create(owner="here:1:a", kind="embedded")


def states(client: Client) -> dict[str, str]:
    return {name: part["state"] for name, part in client.get("/readyz").json()["parts"].items()}


def test_healthz_answers_everybody_without_a_query(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz", headers={"host": "10.1.2.3:8000"}, REMOTE_ADDR="192.0.2.7")
    assert (answer.status_code, answer.content, answer.cookies) == (200, b"ok\n", {})
    assert client.post("/healthz").status_code == 405


def test_health_endpoints_answer_by_ip_address_and_without_https(
    client: Client, settings: Settings, worker: Worker
) -> None:
    settings.SECURE_SSL_REDIRECT, settings.METRICS_TOKEN = True, TOKEN
    inside = {"host": "172.18.0.4:8000", "authorization": f"Bearer {TOKEN}"}
    for address in ("/healthz", "/readyz", "/metrics"):
        assert client.get(address, headers=inside, REMOTE_ADDR="172.18.0.9").status_code == 200, address
    assert client.get("/login/").status_code == 301


@pytest.mark.parametrize("address", ["/readyz", "/metrics"])
def test_readyz_and_metrics_return_404_to_other_machines_without_the_token(
    client: Client, settings: Settings, address: str
) -> None:
    def status(caller: str, **headers: str) -> int:
        return client.get(address, headers=headers, REMOTE_ADDR=caller).status_code

    Worker.objects.create(owner="here:1:a", kind="embedded")
    assert status("127.0.0.1") == 200
    assert status("192.0.2.7") == 404
    assert status("192.0.2.7", authorization="Bearer ") == 404  # no token is set, so no token is valid
    assert status("127.0.0.1", **{"x-forwarded-for": "192.0.2.7"}) == 404  # a proxy on this machine
    settings.METRICS_TOKEN = TOKEN
    assert status("192.0.2.7", authorization=f"Bearer {TOKEN}") == 200
    assert status("192.0.2.7", authorization=f"Bearer {TOKEN}x") == 404
    assert status("192.0.2.7", authorization=f"Basic {TOKEN}") == 404


@pytest.mark.parametrize("address", ["/readyz", "/metrics"])
@pytest.mark.parametrize("host", ["wetbench.example.org", "wetbench.example.org:8000", "10.0.0.7"])
def test_readyz_and_metrics_return_404_to_this_machine_under_another_host_name(
    client: Client, settings: Settings, worker: Worker, address: str, host: str
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert client.get(address, headers={"host": host}).status_code == 404
    for name in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
        assert client.get(address, headers={"host": name}).status_code == 200


def test_readyz_failure_is_counted_in_metrics_and_not_logged(
    client: Client, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REQUEST_LOG = True
    name = 'wetbench_request_seconds_count{status="5xx",view="readyz"}'
    before = values(client).get(name, 0)
    for logger in ("django.request", "wetbench.requests"):
        monitored = logging.getLogger(logger)
        monitored.addHandler(caplog.handler)
    try:
        assert client.get("/readyz").status_code == 503
        assert caplog.messages == []
        assert client.get("/readyz", headers={"host": "testserver"}).status_code == 404
        assert "GET readyz" in caplog.messages, "rejected requests are logged"
    finally:
        for logger in ("django.request", "wetbench.requests"):
            logging.getLogger(logger).removeHandler(caplog.handler)
    assert values(client)[name] == before + 1


def test_readyz_answers_superusers_of_other_machines_and_no_other_users(client: Client, worker: Worker) -> None:
    for user, status in ((User.objects.create_user("ann"), 404), (User.objects.create_superuser("boss"), 200)):
        client.force_login(user)
        assert client.get("/readyz", REMOTE_ADDR="192.0.2.7").status_code == status


def test_readyz_is_ok_while_the_embedded_worker_is_active(client: Client, worker: Worker) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200 and answer.json()["state"] == "ok"
    assert states(client) == dict.fromkeys(("disk", "database", "migrations", "worker"), "ok")


def test_readyz_fails_one_minute_after_the_worker_was_last_active(client: Client, worker: Worker) -> None:
    Worker.objects.update(seen_at=timezone.now() - timedelta(seconds=57))
    assert client.get("/readyz").status_code == 200
    Worker.objects.update(seen_at=timezone.now() - timedelta(seconds=61))
    assert client.get("/readyz").status_code == 503 and states(client)["worker"] == "failed"
    Worker.objects.all().delete()
    assert "manage.py worker" in client.get("/readyz").json()["parts"]["worker"]["said"]


def test_readyz_fails_if_the_disk_is_full(client: Client, settings: Settings, worker: Worker) -> None:
    settings.DISK_FREE_MB = 10**9
    assert client.get("/readyz").status_code == 503 and states(client)["disk"] == "failed"
    settings.VAR_DIR = Path("/nowhere")
    assert states(client)["disk"] == "failed"


def test_readyz_fails_if_a_migration_is_missing(client: Client, worker: Worker) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET name = 'aside' WHERE app = 'sessions'")
        try:
            assert client.get("/readyz").status_code == 503 and states(client)["migrations"] == "failed"
        finally:
            cursor.execute("UPDATE django_migrations SET name = '0001_initial' WHERE app = 'sessions'")


def test_readyz_fails_if_the_database_cannot_be_opened(
    client: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/site.sqlite3")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["database"] == {"state": "failed", "said": "does not answer: OperationalError"}


def test_readyz_reports_degraded_with_status_200_without_the_broker(
    client: Client, settings: Settings, redis_server: RedisServer
) -> None:
    Worker.objects.create(owner="here:1:a", kind="dispatcher")
    settings.CELERY_BROKER_URL = redis_server.url
    assert states(client)["broker"] == "ok"
    redis_server.stop()
    try:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["state"]) == (200, "degraded")
    finally:
        redis_server.start()
    assert states(client)["broker"] == "ok"


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


def test_readyz_answers_within_seconds_if_the_broker_hangs(client: Client, settings: Settings, silent: str) -> None:
    Worker.objects.create(owner="here:1:a", kind="dispatcher")
    settings.CELERY_BROKER_URL = silent
    began = time.monotonic()
    assert client.get("/readyz").json()["state"] == "degraded"
    assert time.monotonic() - began < 2 * health.TIMEOUT_SECONDS


def test_readyz_answers_within_seconds_if_the_database_hangs_at_every_request(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: Any) -> None:
        time.sleep(1.5)

    monkeypatch.setattr(health, "TIMEOUT_SECONDS", 0.1)
    monkeypatch.setitem(health.CHECKS, "database", hang)
    began = time.monotonic()
    for _ in range(6):  # more than may hang at once
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["parts"]["database"] == {"state": "failed", "said": "no answer within 0 s"}
    assert time.monotonic() - began < 1.4
    time.sleep(1.5)  # the checks that hung have ended


def values(client: Client) -> dict[str, float]:
    text = client.get("/metrics").content.decode()
    return {name: float(value) for name, value in re.findall(r"^(wetbench_\S+) (\S+)$", text, flags=re.M)}


def test_metrics_count_requests_by_page_and_not_by_path(client: Client) -> None:
    name = 'wetbench_request_seconds_count{status="4xx",view="ratings:rater_link"}'
    before = values(client).get(name, 0)
    client.get("/r/0123456789abcdef0123456789abcdef/")
    client.get("/r/fedcba9876543210fedcba9876543210/")
    text = client.get("/metrics").content.decode()
    assert values(client)[name] == before + 2 and "abcdef" not in text


def test_metrics_of_rows_are_read_from_the_database(client: Client) -> None:
    Worker.objects.create(owner="here:1:a", kind="celery")
    Worker.objects.create(owner="here:2:b", kind="celery")
    Worker.objects.create(owner="here:3:c", kind="celery", seen_at=timezone.now() - timedelta(hours=1))
    found = values(client)
    assert found['wetbench_workers{kind="celery"}'] == 2
    assert found["wetbench_database_up"] == 1 and found["wetbench_ratings"] == 0
    assert found['wetbench_rows_waiting{kind="episode"}'] == 0


def test_metrics_of_rows_have_the_same_order_whatever_the_order_of_registration(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def families() -> list[str]:
        text = client.get("/metrics").content.decode()
        return re.findall(r"^# TYPE wetbench_(?!request|database_conn)(\S+)", text, flags=re.M)

    expected = [
        "database_up", "ratings", "rating_versions", "rows", "rows_waiting", "leases_lost", "model_calls", "model_tokens",
        "model_cost_usd", "workers",
    ]  # fmt: skip
    assert families() == expected
    monkeypatch.setattr(registry, "_readers", dict(reversed(registry._readers.items())))
    assert families() == expected


def test_metrics_count_whole_tables_once_a_minute(client: Client, settings: Settings) -> None:
    def asked() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            client.get("/metrics")
        return [query["sql"] for query in queries]

    cache.clear()
    settings.TALLY_SECONDS = 60
    try:
        first, second = asked(), asked()
    finally:
        cache.clear()
    whole = [sql for sql in first if "COUNT(" in sql and " WHERE " not in sql]
    assert len(whole) == 5  # ratings, episodes, code episodes, twins, jobs
    assert len(second) == len(first) - 5 and not set(whole) & set(second)


def test_metrics_count_only_the_latest_calls(
    client: Client, model_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = UnitScenario(model_server, "transition")
    scene.run_with_fault({"fault": "wrong_enum"})
    calls = ModelCall.objects.count()
    assert calls > 2 and sum(n for name, n in values(client).items() if "model_calls" in name) == calls
    monkeypatch.setattr(monitoring, "LATEST_CALLS", 2)
    assert sum(n for name, n in values(client).items() if "model_calls" in name) == 2


def test_response_has_a_request_id_which_only_a_trusted_proxy_can_choose(client: Client, settings: Settings) -> None:
    given = {"x-request-id": "proxy-0123456789"}
    one, two = (client.get("/healthz", headers=given)["X-Request-ID"] for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}", one) and one != two
    settings.PROXIES = 1
    assert client.get("/healthz", headers=given)["X-Request-ID"] == "proxy-0123456789"
    for odd in ("short", "x" * 65, "with blanks in it", "a\tb12345678"):
        assert re.fullmatch("[0-9a-f]{32}", client.get("/healthz", headers={"x-request-id": odd})["X-Request-ID"])
