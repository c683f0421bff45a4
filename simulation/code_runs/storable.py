"""Convert what sandboxes return and agents write into values that every database can store."""

import math
from typing import Any

from simulation.replication.values import ToolCall
from wetbench_site.text import UNSTORABLE


def make_storable(value: Any) -> Any:
    """Return a JSON value without NUL, lone surrogates, NaN and infinities; the last two become texts."""
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {make_storable(str(name)): make_storable(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [make_storable(entry) for entry in value]
    return value


def clean_call(call: ToolCall) -> ToolCall:
    """Return the call as it is stored. Arguments that this changes are refused when the tool is checked."""
    return ToolCall.from_json(make_storable(call.to_json()))
