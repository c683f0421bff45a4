"""bench/peers/otree.py and the journey of its raters, without oTree: what a benchmark with it needs from us."""

import json
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.peers import otree
from bench.rater_clients import BrowserConnection, build_answer, rate_study

# Parts of a page of oTree 6.0.15.
OTREE_PAGE = b"""<h2 class="otree-title page-header" id="_otree-title">Action: Transfer</h2>
        <form class="otree-form"
              role="form" id="form" autocomplete="off" method="post"
        >
<input class="form-check-input" type="radio" id="id_verdict-0" name="verdict" required value="yes">
<input class="form-check-input" type="radio" id="id_confidence-3" name="confidence" required value="4">
<button class="otree-btn-next btn btn-primary">Next</button></form>"""
OTREE_END = b'<div class="otree-body container"><h2>You have completed the study.</h2></div>'
MATERIAL = {"condition": "4 \N{DEGREE SIGN}C", "availability": "can be used further"}


def write_page(body: bytes) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)]


def write_redirect(status: bytes, path: bytes) -> list[bytes]:
    """Return the two parts in which uvicorn sends a redirect: it has no length, and its empty body is chunked."""
    return [b"HTTP/1.1 %s\r\nlocation: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % (status, path), b"0\r\n\r\n"]


def serve_one_connection(listener: socket.socket, replies: Sequence[list[bytes]], requests: list[str]) -> None:
    wire, _ = listener.accept()
    with wire:
        for reply in replies:
            requests.append(wire.recv(65536).decode())
            for part in reply:
                wire.sendall(part)
                time.sleep(0.02)  # the client receives the parts separately


def test_missing_otree_ends_with_the_command_that_installs_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OTREE_VENV", str(tmp_path))
    with pytest.raises(SystemExit) as raised, otree.start_otree("", [], 1):
        pass
    # a text as the code of SystemExit is printed, and the exit code is 1
    assert raised.value.code == (
        f"{tmp_path}/bin/otree is missing. Install oTree in an environment of its own: python -m bench.peers.otree --install"
    )


def test_rater_gives_one_answer_for_each_form_of_otree_on_one_connection() -> None:
    replies = [
        write_redirect(b"307 Temporary Redirect", b"/p/abc/rate_items/Rate/1"),
        write_page(OTREE_PAGE),
        write_redirect(b"302 Found", b"/p/abc/rate_items/Rate/2"),
        write_page(OTREE_PAGE),
        write_redirect(b"302 Found", b"/OutOfRangeNotification"),
        write_page(OTREE_END),
    ]
    requests: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve_one_connection, args=(listener, replies, requests), daemon=True).start()
        browser = BrowserConnection(listener.getsockname()[1], cookie="", htmx=False)
        rate_study(browser, "/InitializeParticipant/abc", 5)
    assert [request.split(" HTTP", 1)[0] for request in requests] == [
        "GET /InitializeParticipant/abc",
        "GET /p/abc/rate_items/Rate/1",
        "POST /p/abc/rate_items/Rate/1",
        "GET /p/abc/rate_items/Rate/2",
        "POST /p/abc/rate_items/Rate/2",
        "GET /OutOfRangeNotification",
    ]
    assert requests[2].endswith("\r\n\r\nverdict=yes&confidence=4")
    assert not any("Cookie:" in request for request in requests)
    assert (browser.ratings, len(browser.taken)) == (2, 6)


def test_page_of_wetbench_is_answered_with_its_submission() -> None:
    submission = "0f8fad5b-d9cb-469f-a165-70867728950e"
    page = f'<input type="hidden" name="submission_id" value="{submission}">'.encode()
    assert (build_answer(page) or "").endswith(f"&submission_id={submission}")


def test_item_for_otree_has_the_texts_of_its_payload_in_grouped_tables() -> None:
    wells = [{**MATERIAL, "ref": ref, "name": f"Well {ref}", "properties": [["Volume", "1 mL"]]} for ref in "BCD"]
    before = {**MATERIAL, "ref": "A", "name": "Medium", "properties": [["Volume", "10 mL"], ["Phase", "liquid"]]}
    after = {**before, "properties": [["Volume", "7 mL"], ["Phase", "liquid"]], "continues": "A"}
    payload = {
        "kind": "transition", "lineage": True, "rejected": "", "action": {"name": "Aliquot", "parameters": [["Count", "3"]]},
        "before": [before], "after": [after, *({**well, "continues": ""} for well in wells)],
        "observations": [{"type": "visual", "description": "turns", "value": "blue"}],
    }  # fmt: skip
    item = json.loads(json.dumps(otree.build_item(payload)))
    kept = [["Kept at", "4 \N{DEGREE SIGN}C", "same"], ["Availability", "can be used further", "same"]]
    assert item == {
        "action": "Aliquot",
        "parameters": [["Count", "3"]],
        "lines": ["visual: turns blue"],
        "tables": [
            {
                "caption": "3 materials of one kind",
                "rows": [
                    [f"Well {ref} {ref}: {label}", "", value]
                    for ref in "BCD"
                    for label, value in (
                        ("Volume", "1 mL"),
                        ("Kept at", "4 \N{DEGREE SIGN}C"),
                        ("Availability", "can be used further"),
                    )
                ],
            },
            {"caption": "Medium A", "rows": [["Volume", "10 mL", "7 mL −3 mL"], ["Phase", "liquid", "same"], *kept]},
        ],
    }
