"""Replies by JSON schema in an episode over HTTP, and what happens if a provider rejects the schema."""

import json
from typing import Any

import jsonschema
import pytest

from simulation.calls import replay
from simulation.models import EvidenceReview, ModelCall, ProviderGate
from simulation.providers import connections
from simulation.providers.base import Endpoint, Reply
from tests.support import model_casts
from tests.support.model_server import Server
from tests.support.unit_scenario import UnitScenario

pytestmark = [pytest.mark.django_db, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]
STRUCTURED = {"structured_output": True}
CLAUDE = {"api_version": "2023-06-01", "caching": "breakpoint", **STRUCTURED}


@pytest.fixture(autouse=True)
def forget_refusals() -> None:
    """Start every test as a new worker process would."""
    replay._schema_refusals.clear()


def create_models(simulator: str = "claude-sonnet-5") -> dict[str, Any]:
    """Create models that declare structured output; return the roles that they play. Claude Sonnet 4 does not accept it."""
    model_casts.create_priced_model("an-agent", options=STRUCTURED)
    model_casts.create_priced_model("a-judge", options=STRUCTURED)
    model_casts.create_priced_model(simulator, "anthropic", options=CLAUDE)
    params = {**model_casts.PARAMS, "temperature": None}
    return {"transition_model": {"model": simulator, "params": params}}


def parse_text(call: ModelCall) -> str:
    endpoint = Endpoint(call.provider, call.requested_model)
    return connections.parse_reply(endpoint, Reply(200, call.reply_headers, bytes(call.reply or b""))).text


def find_sent_schema(request: dict[str, Any]) -> Any:
    body = request["body"]
    if "output_config" in body:
        return body["output_config"].get("format", {}).get("schema")
    return body.get("response_format", {}).get("json_schema", {}).get("schema")


@pytest.mark.parametrize("role", ["agent", "transition", "verdict", "twin"])
def test_every_role_answers_by_its_schema_and_the_reply_is_used(model_server: Server, role: str) -> None:
    scenario = UnitScenario(model_server, role, create_models())
    scenario.run_unit()
    [call] = scenario.list_new_calls()
    assert call.state == "answered" and call.effective_params["reply_format"] == "json_schema"
    schema = find_sent_schema(model_server.get_requests()[-1])
    jsonschema.validate(json.loads(parse_text(call)), schema)
    row = scenario.current_row
    if role == "agent":
        assert row.pending["name"] == json.loads(parse_text(call))["action"]
    elif role == "transition":
        assert scenario.get_step_result() == "accepted"
    elif role == "verdict":
        assert EvidenceReview.objects.get().sufficient == (json.loads(parse_text(call))["verdict"] == "VALID")
    else:
        assert row.status == "done"


def test_rejected_schema_is_logged_at_no_cost_and_the_prompt_is_sent_without_it(model_server: Server) -> None:
    scenario = UnitScenario(model_server, "transition", create_models("claude-sonnet-4-20250514"))
    scenario.run_unit()
    scenario.run_unit()
    rejected, answered = scenario.list_new_calls()
    assert (rejected.state, rejected.error_class, rejected.cost) == ("failed", "bad_request", 0)
    assert "does not support structured outputs" in rejected.error
    assert answered.state == "answered" and rejected.error[:300] == answered.dropped_params["reply_format"]
    assert "reply_format" not in answered.effective_params
    sent = [find_sent_schema(request) is not None for request in model_server.get_requests()]
    assert sent == [True, False]
    assert scenario.get_step_result() == "accepted"
    assert not ProviderGate.objects.exclude(closed_until=None).exists()  # other calls with the key go on


def test_later_calls_of_the_run_are_sent_without_a_schema_that_was_rejected(model_server: Server) -> None:
    scenario = UnitScenario(model_server, "transition", create_models("claude-sonnet-4-20250514"))
    for _ in range(5):  # rejected, answered, the agent's next action, its answer, the agent again
        scenario.run_unit()
    calls = [call for call in scenario.list_new_calls() if call.role == "transition"]
    assert [call.state for call in calls][:3] == ["failed", "answered", "answered"]
    assert all("reply_format" in call.dropped_params for call in calls[1:])


def test_answer_in_free_form_is_replayed_by_a_worker_that_has_not_seen_the_rejection(model_server: Server) -> None:
    scenario = UnitScenario(model_server, "transition", create_models("claude-sonnet-4-20250514"))
    scenario.run_unit()
    replay._schema_refusals.clear()  # another worker takes over
    scenario.run_unit()
    assert [call.state for call in scenario.list_new_calls()] == ["failed", "answered"]
    assert scenario.get_step_result() == "accepted"


def test_other_rejected_requests_still_block_the_row(model_server: Server) -> None:
    scenario = UnitScenario(model_server, "transition", create_models())
    row = scenario.run_with_fault({"fault": "bad_request_400"})
    assert (row.status, row.reason) == ("blocked", "bad_request")
    assert len(scenario.list_new_calls()) == 1
