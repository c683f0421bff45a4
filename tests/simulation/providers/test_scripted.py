"""Scripted providers, which return prepared answers."""

import pytest

from simulation.providers import ErrorClass, connections
from simulation.providers.base import ProviderUnavailable, Stop, Usage
from simulation.providers.scripted import LOCAL, ScriptedConnection, ScriptedProvider, completion
from tests.support.wires import PARAMS, PROMPT

FAULT = ProviderUnavailable(ErrorClass.TIMEOUT, "too slow")


def test_scripted_provider_returns_its_answers_in_order_and_records_prompts() -> None:
    speak = ScriptedProvider(["one", completion("two", Stop.MAX_TOKENS)])
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
    request = connection.prepare(PROMPT, PARAMS)
    assert request == connections.connect(LOCAL).prepare(PROMPT, PARAMS)
    assert connection.send(request, 1).text == "one" and connection.requests == [request]
    with pytest.raises(ProviderUnavailable):
        connection.send(request, 1)


@pytest.mark.parametrize("stop", list(Stop))
def test_scripted_completion_equals_its_parsed_reply(stop: Stop) -> None:
    said = completion("a \0 tube", stop, Usage(10, 20, 5, 0, 7, 3))
    assert (said.text, said.stop, said.usage) == ("a \0 tube", stop, Usage(10, 20, 5, 0, 7, 3))
    assert connections.read(LOCAL, said.reply) == said
    assert completion("x", usage=None).usage is None
