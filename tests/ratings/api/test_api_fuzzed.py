"""Requests generated from the API's description, valid and invalid: every response is one that it describes."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as effort
from hypothesis import strategies as st
from requests import Request
from schemathesis import GenerationMode, checks
from schemathesis.core.transport import Response

from ratings.api.tokens import SCOPE_DESCRIPTIONS
from ratings.models import Study
from ratings.results.analyses import store
from simulation.models import Episode
from tests.support import run_factory, study_factory
from tests.support.api_client import create_api_program, get_last_token

DESCRIPTION = "/api/v1/openapi.json"
QUICK, LONG = 12, 100
ANSWERS = {200, 202, 400, 401, 404, 409, 422}
CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance, checks.negative_data_rejection,
]  # fmt: skip


@pytest.fixture
def laboratory(ada: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """One unblinded study and one open, and by the name of a parameter what is really there.

    Statistics are left to a worker that never comes, and answered with 202: their values are not tested here.
    """
    monkeypatch.setattr(store, "INLINE", 0)
    settings.API_PER_MINUTE = 1_000_000
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    study_factory.create_open_study(name="Open study", slug="open-study")
    Study.objects.update(created_by=ada)
    study_factory.unblind_study(study, ada)
    return {
        "items": {"slug": study.slug, "other": "open-study", "code": str(study.items.first().code)},
        "episodes": {"slug": study.slug, "other": "open-study", "code": str(Episode.objects.first().code)},
    }


def operations() -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(Client().get(DESCRIPTION).json())
    schema.config.update(base_url="http://localhost")
    for found in schema.get_all_operations():
        yield found.ok()


def answered(case: Any, headers: dict[str, str]) -> Response:
    """Send the request to the site in this process and transaction, as a server would."""
    sent = Request(**case.as_transport_kwargs(headers=headers)).prepare()
    path, _, query = sent.path_url.partition("?")
    found = Client(raise_request_exception=False).generic(
        sent.method, unquote(path), QUERY_STRING=query, headers=dict(sent.headers)
    )
    told = {name.lower(): [value] for name, value in found.items()}
    return Response(found.status_code, told, found.content, sent, elapsed=0.0, verify=False)


def fuzz(operation: Any, there: dict[str, str], headers: dict[str, str], examples: int) -> set[int]:
    """Return the responses to generated requests: real names half of the time, valid and invalid parameters."""
    seen = set()
    kinds = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE] if operation.query else [GenerationMode.POSITIVE]
    named = {one.name: there[one.name] for one in operation.path_parameters}
    cases = [operation.as_strategy(generation_mode=kind) for kind in kinds]
    if named:
        cases += [operation.as_strategy(generation_mode=kind, path_parameters=named) for kind in kinds]

    @seed(7)
    @effort(
        max_examples=examples, deadline=None, database=None, derandomize=False, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=st.one_of(cases))
    def ask(case: Any) -> None:
        found = answered(case, headers)
        seen.add(found.status_code)
        case.validate_response(found, checks=CHECKS)

    ask()
    return seen


@pytest.mark.thorough
def test_api_fuzzing_many_requests_gives_only_described_responses(
    laboratory: dict[str, dict[str, str]], ada: Any
) -> None:
    for operation in operations():
        there = laboratory["episodes" if "episodes" in operation.path else "items"]
        assert fuzz(operation, there, create_api_program(ada).headers, LONG) <= ANSWERS


def test_api_fuzzing_gives_only_described_responses(laboratory: dict[str, dict[str, str]], ada: Any) -> None:
    headers = create_api_program(ada).headers
    assert set(get_last_token().scopes) == set(SCOPE_DESCRIPTIONS)
    seen = {
        operation.path: fuzz(
            operation, laboratory["episodes" if "episodes" in operation.path else "items"], headers, QUICK
        )
        for operation in operations()
    }
    assert len(seen) == 13
    for path, answers in seen.items():
        assert answers <= ANSWERS, (path, answers)
    assert {200, 202, 404, 422} <= set[int]().union(*seen.values())  # more examples see each of them everywhere
