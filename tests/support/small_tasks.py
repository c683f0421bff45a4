"""A small valid replication task, written to a folder, so that tests can change one thing in it."""

import json
from pathlib import Path
from typing import Any

SLUG = "small-task"
MODULE = '''"""Sums of readings."""

import numpy as np


def remove_offset(values: np.ndarray, offset: float) -> np.ndarray:
    """Return the readings without the offset."""
    # Applied to every reading.
    return values - offset


class Sums:
    """Results of readings."""

    def spread(self, values: np.ndarray) -> float:
        """Return the standard deviation with n - 1."""
        centre = np.mean(values)
        return float(np.sqrt(np.sum((values - centre) ** 2) / (len(values) - 1)))
        # A comment that must not stay when the body is hidden.
'''
EXPERIMENTS = '''"""Experiments."""

import json
from pathlib import Path

import numpy as np

from small.sums import Sums, remove_offset


def e1(folder: Path) -> dict[str, float]:
    """Return the mean without the offset."""
    data = json.loads((folder / "readings.json").read_text())
    return {"mean": float(np.mean(remove_offset(np.array(data["values"]), data["offset"])))}


def e2(folder: Path) -> dict[str, float]:
    """Return the spread."""
    data = json.loads((folder / "readings.json").read_text())
    return {"spread": Sums().spread(np.array(data["values"]))}
'''
GENERATOR = '''"""Write one variant."""

import json
import sys
from pathlib import Path

import numpy as np


def generate(number: int, folder: Path) -> None:
    """Write readings.json."""
    random = np.random.Generator(np.random.PCG64(number))
    centre, spread = np.exp(random.uniform(0, 6)), np.exp(random.uniform(0, 4))
    data = {"offset": random.uniform(-9, 9), "values": list(random.normal(centre + 20, spread, 6))}
    (folder / "readings.json").write_text(json.dumps(data))


if __name__ == "__main__":
    generate(int(sys.argv[1]), Path(sys.argv[2]))
'''
PAPER = """# Readings

Two results of a few readings.

## Offset {#offset}

The offset is subtracted from every reading, and the mean is {{e1.mean}}.

## Spread {#spread}

The spread is the standard deviation with n less 1 in the denominator: {{e2.spread}}.
"""


def build_task_json() -> dict[str, Any]:
    """Return the task.json of the small task as values, for the caller to change."""
    return {
        "slug": SLUG,
        "name": "Readings",
        "summary": "Mean and spread of readings.",
        "experiments": [],
        "packages": ["numpy"],
        "seconds": 5,
        "provenance": "Ours.",
        "functions": [
            {"id": "f1", "path": "code/small/sums.py", "name": "remove_offset", "passages": ["offset"]},
            {"id": "f2", "path": "code/small/sums.py", "name": "Sums.spread", "passages": ["spread"]},
        ],
        "test_cases": [
            {"id": "e1", "title": "Mean", "text": "Report the mean.", "metrics": [{"name": "mean"}]},
            {"id": "e2", "title": "Spread", "text": "Report the spread.", "metrics": [{"name": "spread", "rel": 0.02}]},
        ],
        "profiles": {},
        "screen": "refuse",
    }


def build_errors() -> list[dict[str, str]]:
    """Return the mutants.json of the small task as values."""
    spread = "centre = np.mean(values)\nreturn float(np.sqrt(np.sum((values - centre) ** 2) / len(values)))\n"
    return [
        {"function": function, "body": body, "error_type": kind, "rule": "A rule.", "why": "A reason."}
        for function, body, kind in (
            ("f1", "return values + offset\n", "obvious"),
            ("f2", spread, "subtle"),
            ("f1", "return (values - offset) * 1.001\n", "subtle"),
            ("f2", "return float(np.ptp(values))\n", "obvious"),
        )
    ]


def write_small_task(root: Path, **changes: str) -> Path:
    """Write the task below `root` and return its folder. `changes` replace files: module, experiments, generator, paper, task, errors."""
    folder = root / SLUG
    texts = {
        "code/small/__init__.py": '"""Small."""\n',
        "code/small/sums.py": changes.get("module", MODULE),
        "code/experiments.py": changes.get("experiments", EXPERIMENTS),
        "generate.py": changes.get("generator", GENERATOR),
        "paper.md": changes.get("paper", PAPER),
        "task.json": changes.get("task", json.dumps(build_task_json(), indent=1)),
        "mutants.json": changes.get("errors", json.dumps(build_errors(), indent=1)),
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
