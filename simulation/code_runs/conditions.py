"""The conditions of code episodes: what agents see, the profile of the experiments, and the limits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from simulation.lab.errors import LabError
from simulation.replication.episode_rules import EpisodeLimits
from simulation.replication.values import PROFILES, CodeArm, DocsArm, PaperArm
from wetbench_site.text import hash_json

CHOICES: Mapping[str, tuple[str, ...]] = {
    "paper": get_args(PaperArm),
    "code": get_args(CodeArm),
    "docs": get_args(DocsArm),
    "profile": PROFILES,
}
# Lowest and highest value of each limit.
RANGES: Mapping[str, tuple[float, float]] = {"steps": (1, 1000), "seconds": (1, 86_400), "cost": (0.01, 1000)}


@dataclass(frozen=True)
class Conditions:
    """What a code episode is run with. `seconds` are of sandboxes; `cost` in US dollars, None for no limit.

    `code` is what prompts show of the code base; None, only in an order, for what the scaffold of the cast needs.
    """

    paper: PaperArm = "full"
    code: CodeArm | None = None
    docs: DocsArm = "kept"
    profile: str = "full"
    steps: int = 50
    seconds: float = 1800.0
    cost: float | None = 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def key(self) -> str:
        """Return the first 16 digits of the hash of the conditions. Equal conditions have equal keys."""
        return hash_json(self.to_json())[:16]

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(self.steps, self.seconds, self.cost)


def read_conditions(data: Mapping[str, Any]) -> Conditions:
    """Return the conditions in `data`; missing ones get their default values. Raise LabError with every problem."""
    known = Conditions()
    problems = [f"{name}: unknown condition" for name in data if not hasattr(known, name)]
    for name, choices in CHOICES.items():
        if data.get(name, default := getattr(known, name)) not in (*choices, default):
            problems.append(f"{name}: is {data[name]!r}; allowed: {', '.join(choices)}")
    for name, (lowest, highest) in RANGES.items():
        value = data.get(name, getattr(known, name))
        if value is None and name == "cost":
            continue
        is_number = isinstance(value, int) or (isinstance(value, float) and name != "steps")
        if not is_number or isinstance(value, bool) or not lowest <= value <= highest:
            kind = "a whole number" if name == "steps" else "a number"
            problems.append(f"{name}: is {value!r}; allowed: {kind} from {lowest:g} to {highest:g}")
    if problems:
        raise LabError("Conditions: " + "; ".join(problems))
    return Conditions(**data)
