"""Scripted providers, which return prepared answers."""

import pytest

from simulation.providers import ErrorClass, connections
from simulation.providers.base import ProviderUnavailable, Stop, Usage
from tests.support.byte_server import PARAMS, PROMPT
from tests.support.scripted_models import LOCAL, ScriptedConnection, ScriptedProvider, make_completion

FAULT = ProviderUnavailable(ErrorClass.TIMEOUT, "too slow")


def test_scripted_provider_returns_its_answers_in_order_and_records_prompts() -> None:
    speak = ScriptedProvider(["one", make_completion("two", Stop.MAX_TOKENS)])
    assert speak(PROMPT).text == "one" and speak(PROMPT).stop is Stop.MAX_TOKENS
    assert speak.prompts == [PROMPT, PROMPT]
    with pytest.raises(LookupError, match="the script has ended"):
        speak(PROMPT)


def test_scripted_provider_may_compute_its_answer_from_the_prompt() -> None:
    assert ScriptedProvider(lambda prompt: prompt.purpose)(PROMPT).text == "act"


def test_scripted_provider_raises_a_scripted_error() -> None:
    with pytest.raises(ProviderUnavailable, match="too slow"):
        ScriptedProvider([FAULT])(PROMPT)


def test_scripted_connection_prepares_real_requests_and_raises_scripted_errors() -> None:
    connection = ScriptedConnection(["one", FAULT])
    request = connection.prepare_request(PROMPT, PARAMS)
    assert request == connections.open_connection(LOCAL).prepare_request(PROMPT, PARAMS)
    assert connection.send_request(request, 1).text == "one" and connection.requests == [request]
    with pytest.raises(ProviderUnavailable):
        connection.send_request(request, 1)


@pytest.mark.parametrize("stop", list(Stop))
def test_scripted_completion_equals_its_parsed_reply(stop: Stop) -> None:
    said = make_completion("a \0 tube", stop, Usage(10, 20, 5, 0, 7, 3))
    assert (said.text, said.stop, said.usage) == ("a \0 tube", stop, Usage(10, 20, 5, 0, 7, 3))
    assert connections.parse_reply(LOCAL, said.reply) == said
    assert make_completion("x", usage=None).usage is None
