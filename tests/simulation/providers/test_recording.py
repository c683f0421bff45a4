"""Model calls recorded to a file and replayed from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulation.providers import ErrorClass, Prompt, ProviderError, recording
from simulation.providers.base import Completion, ProviderRefused, Reply, Stop
from simulation.providers.recording import RecordedCall, RecordingError, ReplayConnection
from tests.support import scripted_models
from tests.support.byte_server import PARAMS, PROMPT

HASH = "a" * 64


def build_replay(*calls: RecordedCall) -> ReplayConnection:
    return ReplayConnection(scripted_models.LOCAL, calls)


def send_prompt(connection: ReplayConnection, prompt: Prompt = PROMPT) -> Completion:
    return connection.send_request(connection.prepare_request(prompt, PARAMS), 1.0)


def compute_request_hash(prompt: Prompt = PROMPT) -> str:
    return build_replay().prepare_request(prompt, PARAMS).sha256


def build_recorded_call(text: str, prompt: Prompt = PROMPT, **key: Any) -> RecordedCall:
    return RecordedCall(key, compute_request_hash(prompt), scripted_models.make_completion(text).reply)


def test_recording_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    calls = (
        RecordedCall({"episode": "e1", "number": 3}, HASH, Reply(200, {"x-request-id": "r"}, b"\x00\xff\n{}")),
        RecordedCall({"episode": "e2"}, HASH, None, "timeout", "the call took longer than its deadline"),
        RecordedCall({"episode": "e2"}, HASH, Reply(429, {"retry-after": "3"}, b"{}"), "rate_limit", "slow down"),
    )
    file = tmp_path / "run.jsonl"
    assert recording.write_recording(file, {"run": 7, "cast": "paper"}, calls) == 3
    read = recording.load_recording(file)
    assert read.calls == calls and read.header == {"run": 7, "cast": "paper"}
    assert read.select_calls(episode="e2") == calls[1:]
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_failed_write_keeps_the_older_recording(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recording.write_recording(file, {"run": 1}, [])
    with pytest.raises(TypeError):
        recording.write_recording(file, {"run": 2}, [RecordedCall({"episode": object()}, HASH, Reply(200, {}, b""))])
    assert recording.load_recording(file).header == {"run": 1} and len(list(tmp_path.iterdir())) == 1


def test_repeated_request_is_answered_in_recorded_order_until_none_is_left() -> None:
    other = PROMPT.with_reply("first", "repair", "again")
    connection = build_replay(
        build_recorded_call("first"), build_recorded_call("other", other), build_recorded_call("second")
    )
    assert [send_prompt(connection).text, send_prompt(connection).text, send_prompt(connection, other).text] == [
        "first",
        "second",
        "other",
    ]
    with pytest.raises(ProviderRefused, match="not in the recording") as caught:
        send_prompt(connection)
    assert caught.value.error_class is ErrorClass.BAD_REQUEST


def test_request_that_was_not_recorded_is_refused() -> None:
    with pytest.raises(ProviderRefused, match=f"not in the recording: request {compute_request_hash()[:12]}"):
        send_prompt(build_replay())


@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_recorded_error_is_raised_with_its_class_and_delay(error_class: ErrorClass) -> None:
    call = RecordedCall({}, compute_request_hash(), Reply(429, {"retry-after": "3"}, b"{}"), error_class, "slow down")
    with pytest.raises(ProviderError, match="slow down") as caught:
        send_prompt(build_replay(call))
    assert caught.value.error_class is error_class and caught.value.retry_after == 3.0
    lasting = error_class in ("credentials", "credits", "context", "bad_request")
    assert isinstance(caught.value, ProviderRefused) is lasting


def test_recorded_refusal_is_replayed_as_a_refusal() -> None:
    declined = RecordedCall({}, compute_request_hash(), scripted_models.make_completion("", Stop.REFUSAL).reply)
    assert send_prompt(build_replay(declined)).stop is Stop.REFUSAL


GOOD = {"key": {}, "request_sha256": HASH, "status": 200, "headers": {}, "body": "", "error_class": "", "error": ""}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("{", "line 2: no JSON"),
        ("[1]", "line 2: must be a JSON object"),
        ("[" * 100_000, "line 2: no JSON"),
        (GOOD | {"key": 7}, "line 2: key: must be an object"),
        (GOOD | {"status": "200"}, "line 2: status: must be a whole number"),
        (GOOD | {"status": True}, "line 2: status: must be a whole number"),
        (GOOD | {"status": 0}, "line 2: status: must not be 0 if error_class is empty"),
        (GOOD | {"headers": {"a": 1}}, "line 2: headers: every value must be a text"),
        (GOOD | {"body": "%%%"}, "line 2: body: must be base64"),
        (GOOD | {"body": "é"}, "line 2: body: must be base64"),
        (GOOD | {"error_class": "tired"}, "line 2: error_class: must be empty or one of rate_limit"),
        ({"key": {}}, "line 2: request_sha256: must be a text"),
    ],
)
def test_invalid_recording_line_is_reported_with_its_field(tmp_path: Path, row: object, problem: str) -> None:
    file = tmp_path / "bad.jsonl"
    line = row if isinstance(row, str) else json.dumps(row)
    file.write_text('{"recording": 1}\n' + line + "\n")
    with pytest.raises(RecordingError, match=problem):
        recording.load_recording(file)


@pytest.mark.parametrize("text", ["", "\n", "{}\n", '{"recording": 2}\n', "PK\x03\x04"])
def test_file_that_is_not_a_recording_is_refused_at_its_first_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text(text)
    with pytest.raises(RecordingError, match="line 1"):
        recording.load_recording(file)
