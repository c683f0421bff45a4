"""What can come of asking a language model, besides an answer that can be used. None of it is the agent's failure."""

from collections.abc import Sequence

from simulation.lab.errors import LabError

_SHOWN = 5


class Refusal(LabError):  # noqa: N818  # an answer, not a fault
    """The model would not answer. `category` is what it said of why, "unspecified" if nothing. Never asked again."""

    def __init__(self, category: str = "") -> None:
        self.category = category.strip()[:200] or "unspecified"
        super().__init__(f"the model refused to answer: {self.category}")


class MalformedCompletion(LabError):  # noqa: N818  # as above
    """A reply is not of the form asked for. `problems` are told to the model in a repair turn."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(summary(problems))

    def last(self, reason: str) -> LabError:
        """What it comes to when no turn is left."""
        return NoUsableAnswer(reason, self.problems)


class Recognisable(MalformedCompletion):
    """A twin that could be told from its original by its form."""

    def last(self, reason: str) -> LabError:
        return Unusable(f"the twin can be told from the original by its form: {summary(self.problems)}")


class NoUsableAnswer(LabError):  # noqa: N818  # as above
    """No turn brought an answer that can be used. `reason` is invalid_transition, no_verdict or no_twin."""

    def __init__(self, reason: str, problems: Sequence[str] = ()) -> None:
        self.reason = reason
        super().__init__(f"no usable answer of the model: {summary(problems)}")


class Unusable(LabError):  # noqa: N818  # as above
    """A twin is well-formed and still of no use: it does not differ, does not say what is wrong, or gives itself away."""


class TooLong(LabError):  # noqa: N818  # as above
    """What the model would have to read exceeds its context."""


def summary(problems: Sequence[str]) -> str:
    """The first problems in one line, and how many more there are."""
    more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more
