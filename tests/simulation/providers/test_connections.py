"""Endpoints from environment variables, and the requests that the SDKs send."""

import multiprocessing
from typing import Any

import httpx2
import pytest

from simulation.providers import ErrorClass, connections, transport
from simulation.providers.base import PROVIDERS, Connection, ProviderRefused, ProviderUnavailable, Stop, WireOptions
from tests.support.byte_server import (
    PARAMS,
    PROMPT,
    ByteServer,
    build_anthropic_message,
    build_chat_completion,
    connect_to,
)

KEY = "sk-very-secret-1"


def send_prompt(connection: Connection) -> Any:
    return connection.send_request(connection.prepare_request(PROMPT, PARAMS), 5.0)


@pytest.mark.parametrize(
    ("provider", "path"),
    [("anthropic", "/v1/messages"), ("openai", "/v1/chat/completions"), ("gemini", "/v1/chat/completions"),
     ("openrouter", "/v1/chat/completions"), ("local", "/v1/chat/completions")],
)  # fmt: skip
def test_every_provider_is_called_at_its_path_with_its_key(server: ByteServer, provider: str, path: str) -> None:
    server.respond_with(200, build_anthropic_message() if provider == "anthropic" else build_chat_completion())
    connection = connect_to(server, provider)
    request = connection.prepare_request(PROMPT, PARAMS)
    assert connection.send_request(request, 5.0).text == "A clear liquid."
    (heard,) = server.requests
    assert heard.path == path and heard.headers["authorization"] == f"Bearer {KEY}"
    assert list(heard.data.items()) == list(request.body.items())  # the whole body, in order, and nothing else


def test_repeated_request_is_byte_identical(server: ByteServer) -> None:
    server.respond_with(200, build_chat_completion())
    for _ in range(2):
        send_prompt(connect_to(server))
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_cookies_of_a_server_are_not_sent_back(server: ByteServer, provider: str) -> None:
    server.respond_with(
        200,
        build_anthropic_message() if provider == "anthropic" else build_chat_completion(),
        {"Set-Cookie": "mark=1; Path=/"},
    )
    for _ in range(2):
        send_prompt(connect_to(server, provider))
    assert len(server.requests) == 2 and "cookie" not in server.requests[1].headers


def test_api_version_is_taken_from_the_model_and_not_from_the_sdk(server: ByteServer) -> None:
    server.respond_with(200, build_anthropic_message())
    send_prompt(connect_to(server, "anthropic", api_version="2023-06-01"))
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


def test_retired_claude_with_a_thinking_budget_is_called_without_a_warning(server: ByteServer) -> None:
    # the SDK's typed method warns about this id and this field, and the suite turns warnings into errors
    server.respond_with(200, build_anthropic_message())
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
    options = WireOptions(thinking="budget", api_version="2023-06-01")
    at = connections.make_endpoint("anthropic", "claude-sonnet-4-20250514", options, environ)
    params = PARAMS.__class__(40_000, thinking_budget=2048)  # more than the SDK would send without streaming
    connection = connections.open_connection(at)
    assert connection.send_request(connection.prepare_request(PROMPT, params), 5.0).stop is Stop.STOP


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_sdks_neither_retry_nor_follow_redirects(server: ByteServer, provider: str) -> None:
    server.respond_with(429, {"error": {"message": "slow down"}}, {"Retry-After": "7", "X-Should-Retry": "true"})
    with pytest.raises(ProviderUnavailable) as caught:
        send_prompt(connect_to(server, provider))
    assert caught.value.error_class is ErrorClass.RATE_LIMIT and caught.value.retry_after == 7.0
    server.respond_with(307, {}, {"Location": f"{server.url}/elsewhere"})
    with pytest.raises(ProviderRefused) as moved:
        send_prompt(connect_to(server, provider))
    assert moved.value.error_class is ErrorClass.BAD_REQUEST and len(server.requests) == 2
    assert moved.value.reply is not None and moved.value.reply.headers["location"].endswith("/elsewhere")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_named_with_its_host_and_gets_no_key(server: ByteServer, provider: str, status: int) -> None:
    target = ByteServer()
    try:
        location = f"http://user:{KEY}@localhost:{target.url.rpartition(':')[2]}/v1?key={KEY}"
        server.respond_with(status, {"error": {"message": "moved"}}, {"Location": location})
        with pytest.raises(ProviderRefused) as moved:
            send_prompt(connect_to(server, provider))
        assert target.requests == [] and len(server.requests) == 1
    finally:
        target.listener.close()
    assert str(moved.value) == (
        f"HTTP {status}: The provider answered with a redirect to host localhost; WetBench does not follow redirects. "
        "Check the base URL."
    )
    assert KEY not in repr((moved.value.reply, str(moved.value)))


@pytest.mark.parametrize("location", ["", "/v2/messages", "http://[broken"])
def test_redirect_without_a_host_is_named_as_a_redirect(server: ByteServer, location: str) -> None:
    server.respond_with(307, {}, {"Location": location} if location else {})
    with pytest.raises(ProviderRefused, match="answered with a redirect; WetBench does not follow redirects"):
        send_prompt(connect_to(server, "openai"))


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_api_key_echoed_by_the_server_is_masked(server: ByteServer, provider: str) -> None:
    server.respond_with(401, {"error": {"message": f"no such key: {KEY}"}}, {"X-Request-Id": KEY})
    with pytest.raises(ProviderRefused) as caught:
        send_prompt(connect_to(server, provider))
    assert caught.value.error_class is ErrorClass.CREDENTIALS and "no such key: [key]" in str(caught.value)
    assert KEY not in repr((caught.value.reply, caught.value.request_id, str(caught.value)))
    server.answer = lambda to: to.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{KEY}".encode())
    with pytest.raises(ProviderUnavailable) as cut:
        send_prompt(connect_to(server, provider))
    assert cut.value.reply is not None and cut.value.reply.body == b"[key]"


def test_api_key_is_not_in_a_repr(server: ByteServer) -> None:
    connection = connect_to(server)
    assert KEY not in repr(connection) + repr(connection.endpoint) + repr(connection.prepare_request(PROMPT, PARAMS))


def test_openai_environment_variables_apply_only_to_openai(server: ByteServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-ours")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer sk-of-openai")
    transport._create_client.cache_clear()  # clients created before the variables were set
    server.respond_with(200, build_chat_completion())
    send_prompt(connect_to(server, "openrouter"))
    send_prompt(connect_to(server, "openai"))
    elsewhere, openai = (request.headers for request in server.requests)
    assert "openai-organization" not in elsewhere and "sk-of-openai" not in str(elsewhere)
    assert openai["openai-organization"] == "org-ours"


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_custom_headers_from_the_environment_are_not_sent(
    server: ByteServer, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = "X-Project: secret-plan\nX-API-KEY: another\nauthorization: Bearer another\nAnthropic-Version: 1999-01-01"
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", extra)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", extra)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    transport._create_client.cache_clear()  # clients created before the variables were set
    server.respond_with(200, build_anthropic_message() if provider == "anthropic" else build_chat_completion())
    send_prompt(connect_to(server, provider, api_version="2023-06-01"))
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}" and "x-project" not in headers
    assert "another" not in str(headers) and "1999" not in str(headers)


def test_local_server_needs_no_key(server: ByteServer) -> None:
    server.respond_with(200, build_chat_completion())
    assert send_prompt(connect_to(server, "local", key="")).text == "A clear liquid."


@pytest.mark.parametrize("provider", [name for name, info in PROVIDERS.items() if info.needs_key])
def test_missing_or_invalid_api_key_is_reported_by_variable_name(provider: str) -> None:
    with pytest.raises(connections.MissingKey, match=PROVIDERS[provider].key_variable):
        connections.make_endpoint(provider, "m", WireOptions(), {})
    with pytest.raises(connections.MissingKey, match=PROVIDERS[provider].key_variable):
        connections.make_endpoint(provider, "m", WireOptions(), {PROVIDERS[provider].key_variable: "sk-ä\nb"})


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8080", "ftp://x", "http://", "http://a b", "http://[::1", "http://x:99999"]
)
def test_invalid_base_url_is_reported_by_variable_name(address: str) -> None:
    with pytest.raises(connections.MissingKey, match="LOCAL_BASE_URL"):
        connections.make_endpoint("local", "m", WireOptions(), {"LOCAL_BASE_URL": address})


def test_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'azure' is none of anthropic, openai"):
        connections.make_endpoint("azure", "m", WireOptions(), {})


def test_endpoint_has_a_default_base_url_and_a_stripped_key() -> None:
    at = connections.make_endpoint("anthropic", "m", WireOptions(), {"ANTHROPIC_API_KEY": " sk-1 \n"})
    assert at.base_url == "https://api.anthropic.com" and at.key == "sk-1"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_custom_transport_is_used_and_its_replies_are_limited_in_size(provider: str) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"x" * 5_000_000))
    environ = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    at = connections.make_endpoint(provider, "m", WireOptions(), environ)
    with pytest.raises(ProviderUnavailable, match="longer than"):
        send_prompt(connections.open_connection(at, transport))


def test_stored_reply_is_parsed_to_the_same_completion(server: ByteServer) -> None:
    server.respond_with(200, build_chat_completion())
    connection = connect_to(server, "openrouter")
    said = send_prompt(connection)
    assert connections.parse_reply(getattr(connection, "endpoint"), said.reply) == said  # noqa: B009


def _send_in_child(url: str, answers: Any) -> None:
    base = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url + "/v1"}
    said = send_prompt(connections.open_connection(connections.make_endpoint("openai", "m", WireOptions(), base)))
    answers.put((said.text, transport._create_client.cache_info().misses))


def test_forked_process_creates_its_own_clients(server: ByteServer) -> None:
    server.respond_with(200, build_chat_completion())
    send_prompt(connect_to(server))
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    made = transport._create_client.cache_info().misses
    child = forking.Process(target=_send_in_child, args=(server.url, answers))
    child.start()
    # same address, key and transport, but one more client
    assert answers.get(timeout=10) == ("A clear liquid.", made + 1)
    child.join()
    send_prompt(connect_to(server))
    assert transport._create_client.cache_info().misses == made
