"""The results of the checks of a task, as values that can be stored and compared."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Rule = Literal["gold", "strong", "essential", "stubs", "mutants", "masks", "leaks", "profiles"]
STRONG_SHARE = 0.9  # of pairs of variants that must differ, for a metric to be strong
PROFILE_SHARE = 0.95  # least recall and precision of the quick profile
ErrorOutcome = Literal["caught", "passes", "same", "crashes"]


@dataclass(frozen=True)
class Fault:
    """A rule that a task breaks. `place` names the file, and the function or test case in it."""

    rule: Rule
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True)
class MetricProof:
    """`share` is the share of all pairs of variants whose values differ by more than twice the tolerance.

    `low` and `high` are the smallest and the largest number over all variants; None for texts.
    """

    case: str
    name: str
    share: float
    low: float | None = None
    high: float | None = None

    @property
    def is_strong(self) -> bool:
        return self.share >= STRONG_SHARE


@dataclass(frozen=True)
class FunctionProof:
    """A function: its size, and what happens if it is hidden, replaced by a stub, or changed by a mutant."""

    id: str
    name: str
    lines: int  # of the body
    calls: int  # in all test cases together, with the base data
    depth: int  # calls between a test case and the function
    cases: tuple[str, ...]  # test cases that call it
    raises: bool  # whether all of them raise NotImplementedError if it is hidden
    stubs_passing: tuple[str, ...] = ()
    mutants: Mapping[str, int] = field(default_factory=dict)  # outcome -> how many

    def is_essential(self, with_mutants: bool) -> bool:
        """Return whether the function is needed: it raises when hidden, no stub passes, and, if they were run, a mutant is caught."""
        return self.raises and not self.stubs_passing and (not with_mutants or self.mutants.get("caught", 0) > 0)


@dataclass(frozen=True)
class ErrorProof:
    """What a hand-written error does. `passes_paper`: whether its base results are within 5 % of gold in every test case."""

    index: int  # in mutants.json
    function: str
    error_type: str
    outcome: ErrorOutcome
    passes_paper: bool


@dataclass(frozen=True)
class ClaimProof:
    """A result that the source of an imported task states, and the value that its reference code computes here."""

    case: str
    name: str
    claimed: Any  # a number or a list of numbers
    computed: Any
    is_near: bool  # within 5 %


@dataclass(frozen=True)
class MaskProof:
    """A drawn mask. `problem` is why it must not be used, or ""."""

    key: str
    functions: tuple[str, ...]
    cases: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True)
class ProfileProof:
    """How the quick profile agrees with the full one on which of several code trees pass."""

    trees: int
    recall: float
    precision: float


@dataclass(frozen=True)
class CheckOptions:
    """How much is checked. `mutants`: generic ones for each function, None for all. `quick` leaves out mutants and masks."""

    per_n: int = 1
    mutants: int | None = 20
    quick: bool = False
    profiles: bool = False
    mode: Literal["uniform", "nested", "connected", "scattered"] = "uniform"
    seed: int = 1


@dataclass(frozen=True)
class TaskProof:
    """The result of `check_task`. It holds for this task, these versions of packages, and this machine."""

    slug: str
    task_sha256: str
    environment: Mapping[str, str]  # Python, sandbox, machine and packages
    options: CheckOptions
    seconds: float
    faults: tuple[Fault, ...]
    metrics: tuple[MetricProof, ...] = ()
    functions: tuple[FunctionProof, ...] = ()
    errors: tuple[ErrorProof, ...] = ()
    masks: tuple[MaskProof, ...] = ()
    profiles: ProfileProof | None = None
    case_seconds: Mapping[str, float] = field(default_factory=dict)  # the longest of all variants
    resident_mib: int = 0
    claims: tuple[ClaimProof, ...] = ()  # of imported tasks
    untested: tuple[str, ...] = ()  # rules that this task cannot be tested for, each with the reason

    @property
    def is_valid(self) -> bool:
        return not self.faults

    def count_faults(self, *rules: Rule) -> int:
        return sum(fault.rule in rules for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON values. `from_json` returns it again."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskProof":
        def read_entries(kind: type[Any], name: str) -> tuple[Any, ...]:
            return tuple(
                kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
                for entry in data[name]
            )

        return cls(
            **{
                **data,
                "options": CheckOptions(**data["options"]),
                "faults": read_entries(Fault, "faults"),
                "metrics": read_entries(MetricProof, "metrics"),
                "functions": read_entries(FunctionProof, "functions"),
                "errors": read_entries(ErrorProof, "errors"),
                "masks": read_entries(MaskProof, "masks"),
                "claims": read_entries(ClaimProof, "claims"),
                "untested": tuple(data["untested"]),
                "profiles": ProfileProof(**data["profiles"]) if data["profiles"] else None,
            }
        )


def summarise_proofs(proofs: list[TaskProof]) -> dict[str, int]:
    """Return the counts that `check_tasks` prints."""
    functions = [(function, not proof.options.quick) for proof in proofs for function in proof.functions]
    return {
        "tasks": len(proofs),
        "functions": len(functions),
        "essential": sum(function.is_essential(with_mutants) for function, with_mutants in functions),
        "stubs_passing": sum(len(function.stubs_passing) for function, _ in functions),
        "masks_refused": sum(bool(mask.problem) for proof in proofs for mask in proof.masks),
        "leaks": sum(proof.count_faults("leaks") for proof in proofs),
        "unstable": sum(proof.count_faults("gold") > 0 for proof in proofs),
    }
