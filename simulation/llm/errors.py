"""Results of a model call other than a usable answer. None of them counts against the agent."""

from collections.abc import Sequence

from simulation.lab.errors import LabError

_MAX_LISTED = 5  # problems in one line of a message


class Refusal(LabError):  # noqa: N818  # a result, not an error
    """The model refused to answer. `category` is its reason, or "unspecified". The prompt is not sent again."""

    def __init__(self, category: str = "") -> None:
        # 200 characters: it comes from the provider and is stored.
        self.category = category.strip()[:200] or "unspecified"
        super().__init__(f"the model refused to answer: {self.category}")


class MalformedCompletion(LabError):  # noqa: N818  # as above
    """A reply does not have the requested format. `problems` are sent to the model in a repair turn."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__(summarise_problems(problems))

    def final_error(self, reason: str) -> LabError:
        """Return the error to raise when no turn is left."""
        return NoUsableAnswer(reason, self.problems)


class RecognisableTwin(MalformedCompletion):
    """A twin whose form reveals that it is not the original."""

    def final_error(self, reason: str) -> LabError:
        return UnusableTwin(
            f"the form of the twin distinguishes it from the original: {summarise_problems(self.problems)}"
        )


class NoUsableAnswer(LabError):  # noqa: N818  # as above
    """No turn returned a usable answer. `reason` is invalid_transition, no_verdict or no_twin."""

    def __init__(self, reason: str, problems: Sequence[str] = ()) -> None:
        self.reason, self.problems = reason, problems
        super().__init__(f"no usable answer of the model: {summarise_problems(problems)}")


class UnusableTwin(LabError):  # noqa: N818  # as above
    """A twin is well-formed and still unusable: it does not differ, does not explain its error, or reveals it."""


class TooLong(LabError):  # noqa: N818  # as above
    """The prompt exceeds the model's context."""


def summarise_problems(problems: Sequence[str]) -> str:
    """Return the first problems in one line, and how many more there are."""
    more = f" (and {len(problems) - _MAX_LISTED} more)" if len(problems) > _MAX_LISTED else ""
    return "; ".join(problems[:_MAX_LISTED]) + more
