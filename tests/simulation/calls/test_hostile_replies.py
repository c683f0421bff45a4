"""Outcomes of episodes and twins when a provider or a model misbehaves: one table row per fault and role."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import anthropic as _anthropic  # noqa: F401  # importing an SDK takes seconds, which must not count as time of a call
import openai as _openai  # noqa: F401
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from simulation.calls import run_usage
from simulation.models import (
    CastDefinition,
    CatalogueEntry,
    Episode,
    EvidenceReview,
    Experiment,
    LanguageModel,
    ModelCall,
    ProviderGate,
    Run,
    Transition,
    Twin,
)
from simulation.runs import control, create
from tests.support import model_casts
from tests.support.embedded_worker import run_one_unit
from tests.support.hostile_replies import FAULTS, ROWS, Expected, expect_waiting
from tests.support.model_server import FAULTS as KNOWN
from tests.support.model_server import Server, run_in_thread
from tests.support.unit_scenario import UnitScenario

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with run_in_thread() as server:
        yield server


@pytest.fixture
def server(shared: Server, db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Server:
    """The shared server, reset for each test."""
    shared.reset_all()
    for name, value in shared.get_environ().items():
        monkeypatch.setenv(name, value)
    settings.CALL_SECONDS = 30  # long enough for a busy machine
    return shared


@pytest.mark.parametrize(("role", "fault", "becomes"), ROWS)
def test_fault_has_the_documented_outcome_and_loses_no_step_and_work_continues_afterwards(
    server: Server, role: str, fault: dict[str, Any], becomes: Expected, settings: Any
) -> None:
    if becomes == expect_waiting("timeout"):
        settings.CALL_SECONDS = 1
    scene = UnitScenario(server, role)
    row = scene.run_with_fault(fault)
    calls = scene.list_new_calls()
    made = tuple(f"{call.state} {call.error_class}".strip() for call in calls)
    assert Expected(row.status, row.reason, made, scene.get_step_result()) == becomes, row.error
    assert bool(row.error) == (row.status in ("waiting", "blocked", "failed", "unusable"))
    assert all(call.milliseconds < 20_000 and call.number == scene.before.number for call in calls)
    settings.CALL_SECONDS = 30
    goes_on(scene, row)
    playing = Episode.objects.get(counts=True)
    assert [step.number for step in playing.transitions.all()] == list(range(1, playing.next_number))


def goes_on(scene: UnitScenario, row: Episode | Twin) -> None:
    """Check that after the fault the next unit repeats an unanswered call, or else takes the next step."""
    before = scene.list_new_calls()
    match row.status:
        case "submitted" | "done":
            return
        case "blocked":
            assert control.retry_blocked(scene.run) == 1
        case "failed" | "unusable":
            retried(scene, row)
    scene.run_unit()
    call, now = ModelCall.objects.latest("pk"), scene.current_row
    assert (call.state, now.error) == ("answered", "") and now.status in ("running", "submitted", "done")
    if row.status in ("waiting", "blocked"):
        last = before[-1]
        assert (call.number, call.turn, call.attempt) == (last.number, last.turn, last.attempt + 1)
        assert call.request_sha256 == last.request_sha256


def retried(scene: UnitScenario, row: Episode | Twin) -> None:
    """Check that a twin is requested again, and that an episode is replaced by a new one and itself unchanged."""
    if isinstance(row, Twin):
        assert control.retry_twin(row)
    else:
        scene.code = create.retry_episode(row).code


def test_fault_table_has_every_fault_of_the_local_server() -> None:
    assert {fault.name for fault in FAULTS} == KNOWN


@pytest.mark.parametrize(
    ("role", "purposes"), [("transition", "answer repair"), ("verdict", "verdict repair"), ("twin", "perturb repair")]
)
def test_malformed_reply_costs_one_repair_turn_with_the_error(server: Server, role: str, purposes: str) -> None:
    scene = UnitScenario(server, role)
    row = scene.run_with_fault({"fault": "wrong_enum", "times": 1})
    assert row.status in ("running", "submitted", "done")
    first, repair = scene.list_new_calls()
    assert f"{first.purpose} {repair.purpose}" == purposes and (first.turn, repair.turn) == (0, 1)
    asked, told = (request["body"]["messages"] for request in server.get_requests()[-2:])
    assert told[: len(asked)] == asked and [turn["role"] for turn in told[-2:]] == ["assistant", "user"]
    assert re.search(r"^- .", told[-1]["content"], re.MULTILINE), "the problems, one a line"


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        ("agent", "truncated"),
        ("transition", "thinking_only"),
        ("verdict", "truncated"),
        ("twin", "empty"),
    ],
)
def test_truncated_or_empty_reply_is_requested_again_with_the_same_prompt(
    server: Server, role: str, fault: str
) -> None:
    scene = UnitScenario(server, role)
    row = scene.run_with_fault({"fault": fault, "times": 1})
    assert row.status in ("running", "submitted", "done") and scene.get_step_result() in ("", "accepted")
    cut, whole = scene.list_new_calls()
    assert cut.request_sha256 == whole.request_sha256 and (cut.turn, whole.turn) == (0, 1)


def test_three_unparsable_actions_end_the_episode_like_three_rejections(server: Server) -> None:
    scene = UnitScenario(server, "agent")
    server.set_faults("missing_field")
    for _ in range(3):
        scene.run_unit()
    episode = Episode.objects.get()
    assert (episode.status, episode.error) == ("rejected_out", "")
    told = list(Transition.objects.values_list("action_name", "rejected_by", "accepted"))
    assert told == [("(unreadable)", "parser", False)] * 3


@pytest.mark.parametrize(("asked", "waited"), [(30, 30), (10**9, 600)], ids=["asked", "at most ten minutes"])
def test_retry_after_delays_every_episode_of_the_key(server: Server, asked: int, waited: int) -> None:
    scene = UnitScenario(server, "agent")
    began = timezone.now()
    row = scene.run_with_fault({"fault": "rate_limit", "retry_after": asked})
    gate = ProviderGate.objects.get()
    for until in (row.not_before, gate.closed_until):
        assert until is not None and 0 <= (until - began).total_seconds() - waited < 20
    other = create.create_episode_run([row.experiment], "model_cast_server", 1, seed=2).episodes.get()
    run_one_unit("episode", other.code)
    other.refresh_from_db()
    assert (other.status, other.reason) == ("waiting", "rate_limit") and other.not_before > began + timedelta(
        seconds=20
    )
    assert server.get_counters()["total"]["requests"] == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("wrong_enum", "no_verdict"),
        ("context_400", "context"),
        ("bad_request_400", "bad_request"),
    ],
)
def test_panel_member_without_a_verdict_is_missing_and_the_episode_ends(
    server: Server, fault: str, reason: str
) -> None:
    scene = UnitScenario(server, "verdict", {"panel": ("judge-two",)})
    server.set_faults({"fault": fault, "model": "judge-two"})
    while scene.current_row.status in ("queued", "running"):
        scene.run_unit()
    episode = Episode.objects.get()
    assert (episode.status, episode.reviews.get().classifier) == ("submitted", "a-judge")
    assert episode.missing_reviews.values_list("classifier", "reason").get() == ("judge-two", reason)


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("fault", "came", "kept"),
    [("nul", rb"a\u0000b\u0007c\u0085d\ud83de", "a�b�c�d�e"), ("bad_utf8", b"\xff\xfe\xc3(", "���(")],
)
def test_invalid_text_is_replaced_when_parsed_and_stored_as_received(
    server: Server, fault: str, came: bytes, kept: str
) -> None:
    scene = UnitScenario(server, "transition")
    scene.run_with_fault({"fault": fault})
    [call] = scene.list_new_calls()
    # Inside the envelope's own JSON, an escape of the answer's JSON has its backslash doubled or not.
    assert came in bytes(call.reply).replace(rb"\\", b"\\")
    step = Transition.objects.get().step["outcome"]
    [observation] = step["new_observations"]
    assert observation["value"] == kept and step["new_materials"][0]["name"].endswith(kept)
    assert step["new_materials"][0]["properties"]["label"] == kept


@pytest.mark.both_databases
@pytest.mark.parametrize("fault", [{"fault": "huge_2mb", "size": 5 * 2**20}, {"fault": "gzip_bomb"}], ids=str)
def test_endless_body_is_stored_up_to_four_mebibytes(server: Server, fault: dict[str, Any]) -> None:
    scene = UnitScenario(server, "transition")
    scene.run_with_fault(fault)
    [call] = scene.list_new_calls()
    assert len(bytes(call.reply)) == 4 * 2**20 and "4194304" in call.error


def test_last_of_two_json_objects_is_used(server: Server) -> None:
    UnitScenario(server, "transition").run_with_fault({"fault": "two_objects"})
    [observation] = Transition.objects.get().step["outcome"]["new_observations"]
    assert observation["value"] != "a first go"


def test_unknown_fields_are_dropped_and_recorded(server: Server) -> None:
    UnitScenario(server, "transition").run_with_fault({"fault": "unknown_field"})
    outcome = Transition.objects.get().step["outcome"]
    assert "mood" in outcome.pop("reasoning") and "mood" not in json.dumps(outcome)


def test_reply_without_token_counts_keeps_the_tokens_that_were_reserved_for_it(server: Server) -> None:
    scene = UnitScenario(server, "agent", max_tokens=10**7)
    scene.run_with_fault({"fault": "no_usage"})
    [call] = scene.list_new_calls()
    assert (call.cost, call.output, call.input_uncached) == (None, None, None)
    assert (
        Run.objects.get().held_tokens == call.reserved_tokens > 0
        and run_usage.check_budget_counters(scene.run).is_consistent
    )


def test_served_model_other_than_the_requested_one_is_recorded(server: Server) -> None:
    scene = UnitScenario(server, "agent")
    scene.run_with_fault({"fault": "rerouted"})
    [call] = scene.list_new_calls()
    assert (call.requested_model, call.served_model) == ("an-agent", "some-other-model")


@pytest.mark.both_databases
def test_model_output_is_treated_as_text_and_never_as_instructions(
    server: Server, admin_client: Client, settings: Any
) -> None:
    thinker = model_casts.build_role("an-agent", scaffold="react", history={"kind": "full"})
    scene = UnitScenario(server, "agent", {"agent": thinker})
    before = counted()
    for fault in ("injection", "injection", ""):  # the third step has no fault, so that its twin can differ
        server.set_faults(*[fault] * bool(fault))
        scene.run_unit()
        scene.run_unit()
    server.set_faults("injection")
    Episode.objects.update(phase="verdict")
    scene.run_unit()
    twins = create.create_twin_run(Transition.objects.filter(number=3), ["subtle"], "model_cast_server", seed=2).twins
    run_one_unit("twin", twins.get().code)
    assert (scene.current_row.status, twins.get().status) == ("submitted", "done")
    assert counted() == before, "the laboratory is as it was: nothing was added, dropped or renamed"
    assert "Quit" not in Transition.objects.values_list("action_name", flat=True)
    verdict = re.search("<verdict>(VALID|INVALID)</verdict>", answer_of(ModelCall.objects.get(role="verdict")))
    assert verdict is not None and EvidenceReview.objects.get().sufficient == (verdict[1] == "VALID")
    carried = [request["body"] for request in server.get_requests() if "IGNORE ALL" in json.dumps(request["body"])]
    assert len(carried) >= 3, "the second choice, its answer and the verdict"
    for body in carried:
        content = body["messages"][-1]["content"]
        # Blocks that mark what is to be cached are one text.
        told = content if isinstance(content, str) else "".join(block["text"] for block in content)
        assert "{goal}" in told, "a prompt is filled once: braces in data stay"
        assert all(line_is_data(line) for line in told.splitlines() if "IGNORE ALL" in line)
    pages = {address: admin_client.get(address).content.decode() for address in addresses(scene, twins.get())}
    for address, page in pages.items():
        assert "<script>alert" not in page and settings.SECRET_KEY not in page, address
    shown = [
        address
        for address, page in pages.items()
        if "&lt;script&gt;alert" in page and "{{ settings.DATABASES }}" in page
    ]
    kinds = ("/episodes/", "/twins/", "/calls/")
    assert all(any(kind in address for address in shown) for kind in kinds), "it is there to be read"
    assert counted() == before and scene.current_row.status == "submitted"


def counted() -> dict[str, Any]:
    """Return everything that models must not affect."""
    tables = (Experiment, CatalogueEntry, LanguageModel, CastDefinition, User)
    return {table.__name__: list(table.objects.order_by("pk").values()) for table in tables} | {
        "episodes": Episode.objects.count(),
        "tables": sorted(connection.introspection.table_names()),
    }


def answer_of(call: ModelCall) -> str:
    return str(json.loads(bytes(call.reply))["choices"][0]["message"]["content"])


def line_is_data(line: str) -> bool:
    """Return whether the line is JSON inside a delimiter, where no tag can begin, or starts with a known label."""
    if line.lstrip().startswith(("{", '"')):
        return "</" not in line and "<verdict>" not in line
    return bool(re.match(r"MAT-|   (->|saw)|\d+\. |\(thought before step \d+: ", line))


def addresses(scene: UnitScenario, twin: Twin) -> list[str]:
    last = {(call.role, call.purpose): call.code for call in ModelCall.objects.order_by("pk")}
    calls = [reverse("simulation:call", args=[code]) + "?all=1" for code in last.values()]
    episode, runs = reverse("simulation:episode", args=[scene.code]), [scene.run.code, twin.run.code]
    pages = [reverse(f"simulation:{name}", args=[code]) for name in ("run", "run_calls") for code in runs]
    return [episode, reverse("simulation:twin", args=[twin.code]), reverse("simulation:twins"), *pages, *calls]
