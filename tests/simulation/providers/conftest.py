from collections.abc import Iterator

import anthropic  # noqa: F401  # loading the SDKs takes seconds, which must not count as time of a call
import openai  # noqa: F401
import pytest

from tests.support.byte_server import ByteServer


@pytest.fixture
def server() -> Iterator[ByteServer]:
    serving = ByteServer()
    yield serving
    serving.listener.close()
