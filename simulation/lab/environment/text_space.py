"""A Gymnasium space of texts, for environments whose episodes are dialogues."""

from typing import Any

import numpy as np
from gymnasium import spaces

from wetbench_site.text import is_storable

# Samples are drawn from these: enough to show what a text may contain, few enough to read.
_LETTERS = "ACTIONMATERIALSPARAMETERS: =,{}\n0123456789µ°Δ²³≥×–äé"
_MAX_SAMPLE_LENGTH = 200  # characters of a random sample; the space itself is larger


class UnicodeText(spaces.Space[str]):
    """The space of all texts of at most `max_length` characters without NUL and unpaired surrogates."""

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        if mask is not None or probability is not None:
            raise ValueError("a text cannot be masked")
        length = int(self.np_random.integers(0, min(self.max_length, _MAX_SAMPLE_LENGTH) + 1))
        return "".join(_LETTERS[index] for index in self.np_random.integers(0, len(_LETTERS), size=length))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length and is_storable(x)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.max_length == other.max_length

    def __hash__(self) -> int:
        return hash((type(self), self.max_length))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_length})"
