"""Write arguments of calls as JSON and read them again; write returned values in a form that can be compared.

numpy is used only if the code under test has imported it; otherwise there are no arrays.
"""

import importlib
import math
import sys
from pathlib import Path, PurePath
from typing import Any

MAX_ELEMENTS = 20_000  # of an argument
SAMPLED = 200  # elements of a returned list that are compared
MAX_DEPTH = 12
MAX_TEXT = 2_000


class NotRecordableError(Exception):
    """An argument that cannot be written as JSON, such as an open file."""


def get_numpy() -> Any:
    return sys.modules.get("numpy")


def encode_argument(value: Any, own: list[str], depth: int = 0) -> list[Any]:
    """Return [kind, ...] of an argument. Raises NotRecordableError."""
    np = get_numpy()
    if depth > MAX_DEPTH:
        raise NotRecordableError("too deep")
    if value is None or type(value) in (bool, int, str):
        return ["plain", value]
    if type(value) is float:
        return ["float", value.hex()]
    if np is not None and isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biufU" or array.size > MAX_ELEMENTS:
            raise NotRecordableError(f"an array of {array.size} elements of type {array.dtype}")
        elements = [element.hex() if isinstance(element, float) else element for element in array.ravel().tolist()]
        return ["array", array.dtype.str, list(array.shape), elements, isinstance(value, np.generic)]
    if np is not None and type(value) is np.random.Generator:
        return ["random", value.bit_generator.state]
    if isinstance(value, PurePath):
        return ["path", str(value)]
    if type(value) in (list, tuple, set) or (isinstance(value, tuple) and is_own(type(value), own)):
        if len(value) > MAX_ELEMENTS:
            raise NotRecordableError(f"{len(value)} elements")
        elements = [encode_argument(element, own, depth + 1) for element in value]
        name = type(value).__name__ if type(value) in (list, tuple, set) else name_object(type(value))
        return ["sequence", name, elements]
    if type(value) is dict:
        entries = [
            [encode_argument(key, own, depth + 1), encode_argument(entry, own, depth + 1)]
            for key, entry in value.items()
        ]
        return ["dict", entries]
    if callable(value) and is_own(value, own) and "<" not in value.__qualname__:
        return ["named", name_object(value)]
    if is_own(type(value), own) and hasattr(value, "__dict__"):
        return ["instance", name_object(type(value)), encode_argument(vars(value), own, depth + 1)]
    raise NotRecordableError(f"a {type(value).__name__}")


def is_own(thing: Any, own: list[str]) -> bool:
    """Return whether a class or function belongs to the task's code."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] in own


def name_object(thing: Any) -> str:
    return f"{thing.__module__}:{thing.__qualname__}"


def find_object(name: str) -> Any:
    """Return the class or function of `name_object`."""
    module, _, path = name.partition(":")
    thing = importlib.import_module(module)
    for part in path.split("."):
        thing = getattr(thing, part)
    return thing


def decode_argument(data: list[Any]) -> Any:
    """Return a new object equal to the argument that `encode_argument` wrote."""
    kind, *rest = data
    np = get_numpy()
    if kind == "plain":
        return rest[0]
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "array":
        dtype, shape, elements, is_scalar = rest
        numbers = [float.fromhex(element) if np.dtype(dtype).kind == "f" else element for element in elements]
        array = np.array(numbers, dtype=dtype).reshape(shape)
        return array[()] if is_scalar else array
    if kind == "random":
        generator = np.random.Generator(getattr(np.random, rest[0]["bit_generator"])())
        generator.bit_generator.state = rest[0]
        return generator
    if kind == "path":
        return Path(rest[0])
    if kind == "sequence":
        elements = [decode_argument(element) for element in rest[1]]
        simple = {"list": list, "tuple": tuple, "set": set}.get(rest[0])
        return simple(elements) if simple else find_object(rest[0])(*elements)
    if kind == "dict":
        return {decode_argument(key): decode_argument(entry) for key, entry in rest[0]}
    if kind == "named":
        return find_object(rest[0])
    cls = find_object(rest[0])
    instance = object.__new__(cls)
    vars(instance).update(decode_argument(rest[1]))
    return instance


def describe_result(value: Any, depth: int = 0) -> Any:
    """Return a result as JSON that can be compared.

    An array is {"array": elements, "length": number} in one dimension; of it and of longer lists, evenly spaced elements are kept.
    """
    np = get_numpy()
    if depth > MAX_DEPTH:
        return {"kind": "too deep"}
    if np is not None and isinstance(value, np.ndarray) and value.ndim:
        elements = sample_elements(value.ravel().tolist())
        return {"array": [describe_result(element, depth + 1) for element in elements], "length": int(value.size)}
    if np is not None and isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value if value is None else int(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 2**1000 else {"kind": "a large whole number"}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, str):
        return str(value)[:MAX_TEXT]
    if isinstance(value, list | tuple):
        return [describe_result(element, depth + 1) for element in sample_elements(flatten_lists(value))]
    if isinstance(value, dict):
        return {str(key): describe_result(entry, depth + 1) for key, entry in list(value.items())[:SAMPLED]}
    if hasattr(value, "__dict__") and not callable(value):
        return {"kind": type(value).__name__, "values": describe_result(vars(value), depth + 1)}
    return {"kind": type(value).__name__}


def sample_elements(elements: list[Any]) -> list[Any]:
    """Return all elements, or at most 200 that are evenly spaced."""
    return elements[:: max(1, math.ceil(len(elements) / SAMPLED))]


def flatten_lists(value: Any) -> list[Any]:
    """Return the elements of a list; of a list of lists of numbers the numbers, as a matrix without numpy has them."""
    if value and all(isinstance(row, list | tuple) and all(isinstance(x, int | float) for x in row) for row in value):
        return [element for row in value for element in row]
    return list(value)
