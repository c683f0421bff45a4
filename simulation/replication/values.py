"""The values that tasks, agents, environments and grading exchange."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from simulation.lab.errors import LabError

MetricKind = Literal["number", "count", "label"]
DocsArm = Literal["kept", "signature"]
PaperArm = Literal["full", "none", "oracle"]
CodeArm = Literal["none", "full", "ast", "lexical"]
MaskMode = Literal["uniform", "nested", "connected", "scattered"]
PROFILES = ("quick", "full")
BASE_VARIANT = 0  # the public data set; secret variants are drawn from a salt
HIDDEN_MESSAGE = "hidden"  # a masked body is `raise NotImplementedError("hidden")`

# One result of a test case: a finite number, an exact text, or a list of numbers.
MetricValue = float | int | str | Sequence[float]
CaseValues = Mapping[str, MetricValue]  # metric name -> value
TaskValues = Mapping[str, CaseValues]  # test case id -> values


@dataclass(frozen=True)
class Metric:
    """A result of a test case. Near: |x - gold| <= max(abs, rel * |gold|). A count and a label must be exact."""

    name: str
    unit: str = ""
    kind: MetricKind = "number"
    rel: float = 0.05
    abs: float = 1e-9


@dataclass(frozen=True)
class TestCase:
    """One experiment command of a task, `python run.py ID`, with its results. Pages call it "experiment e1"."""

    __test__: ClassVar[bool] = False  # not a class of pytest

    id: str
    title: str
    text: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class TaskFunction:
    """A function that a mask may hide. `path` is below the task folder, `name` qualified ("Class.method")."""

    id: str
    path: str
    name: str
    passages: tuple[str, ...] = ()  # section ids of the paper that describe it


@dataclass(frozen=True)
class PlantedError:
    """A hand-written error: a whole replacement body (the statements after the docstring, dedented)."""

    function: str  # id
    body: str
    error_type: Literal["obvious", "subtle"]
    rule: str
    why: str


@dataclass(frozen=True)
class Origin:
    """The source of an imported task.

    `code_sha256` is the digest of the modules that were parsed in a sandbox when they were imported. `missing` is what the task needs and this
    installation does not have. `claims` are the results that the source states: they are shown next to the values computed here, and never graded.
    """

    format: Literal["autoexperiment", "git"]
    source: str
    commit: str
    code_sha256: str
    missing: tuple[str, ...] = ()
    claims: Mapping[str, Mapping[str, float | Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A task folder as a value. `code` maps "code/..." to text. The generator and the errors are never shown to agents.

    An imported task may have no generator (""). Its base data are then `data`, files in base64 by path. Its other variants are the base data
    with a file `seed.txt`, if `seed_argument` names the argument of its commands that is a random seed; otherwise there are no other variants.
    """

    slug: str
    name: str
    summary: str
    experiments: tuple[str, ...]
    packages: tuple[str, ...]
    seconds: float
    provenance: str
    functions: tuple[TaskFunction, ...]
    test_cases: tuple[TestCase, ...]
    profiles: Mapping[str, Mapping[str, str]]  # "full" and "quick": environment variables of the experiments
    screen: Literal["refuse", "warn"]
    paper: str
    code: Mapping[str, str]
    generator: str
    errors: tuple[PlantedError, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    seed_argument: str = ""
    origin: Origin | None = None

    @property
    def has_variants(self) -> bool:
        """Whether code can be tested on other data than the public ones."""
        return bool(self.generator or self.seed_argument)

    def get_function(self, function_id: str) -> TaskFunction:
        """Return the function of that id. Raises KeyError."""
        return {function.id: function for function in self.functions}[function_id]


@dataclass(frozen=True)
class MaskDraw:
    """One drawn mask of a task: the hidden functions, in the order of the task, and its key ("u3-004")."""

    slug: str
    n: int
    mode: MaskMode
    index: int
    key: str
    functions: tuple[str, ...]  # ids


class ToolFormatError(LabError):
    """A reply that is not a tool call. `problems` lists every fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class ToolCall:
    """A tool and its arguments, all as text.

    `note` is what the agent wrote before it: a thought or a plan. `remark` states which part of the reply was ignored, such as a second
    tool; the observation repeats it.
    """

    tool: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    remark: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"tool": self.tool, "arguments": dict(self.arguments), "note": self.note, "remark": self.remark}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ToolCall":
        return cls(data["tool"], data["arguments"], data.get("note", ""), data.get("remark", ""))


class CodeStepRecord(NamedTuple):
    """One step of a code episode as agents see it."""

    number: int
    call: ToolCall | None  # None: the reply could not be read
    observation: str
    refused: bool


class LimitsLeft(NamedTuple):
    """What is left of an episode's limits."""

    steps: int
    seconds: float  # of sandboxes
    cost: float | None  # US dollars; None: no model is paid for


@dataclass(frozen=True)
class CodeSituation:
    """What an agent is given before it chooses a tool."""

    brief: str  # TASK.md
    files: Mapping[str, bytes]  # the workspace
    folder: str  # current folder, "" is the workspace
    history: Sequence[CodeStepRecord]
    left: LimitsLeft
    last_turn: bool = False  # a limit is reached: only submit and quit are allowed


class CodingAgent(Protocol):
    """Chooses one tool at a time. Raises ToolFormatError if its reply cannot be read."""

    def choose_tool(self, situation: CodeSituation) -> ToolCall: ...
