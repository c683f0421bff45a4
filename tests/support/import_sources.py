"""A small source in the AutoExperiment format, written to a folder, and a Git repository with a task. All of it is our own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

PAPER = "1234.56789"
SLUG = "paper-1234-56789"
RATES = '''import numpy as np


class Series:
    def __init__(self, times, values):
        self.times = times
        self.values = values

    def fit_rate(self,
                 offset=0.0):
        # The slope of the logarithm.
        logs = np.log(self.values - offset)
        centred = self.times - np.mean(self.times)
        return float(np.sum(centred * logs) / np.sum(centred**2))


def half_life(rate):
    """Return the time in which half is left."""
    return float(np.log(2.0) / -rate)


def mean_level(values, weights):
    total = np.sum(weights)
    return float(np.sum(values * weights) / total)
'''
RUN = """import argparse
import json

import numpy as np

from decay.rates import Series, half_life, mean_level

parser = argparse.ArgumentParser()
parser.add_argument("--noise", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=3)
arguments = parser.parse_args()
table = np.loadtxt("tables/points.csv", delimiter=",", skiprows=1)
noise = arguments.noise * np.random.default_rng(arguments.seed).normal(size=len(table))
times, values = table[:, 0], table[:, 1] * np.exp(noise)
rate = Series(times, values).fit_rate()
print("fitted", len(table), "points")
print(json.dumps({"rate": rate, "half life": half_life(rate)}))
print(f"level: {mean_level(values, np.arange(1.0, len(values) + 1.0))}")
"""
POINTS = "time,value\n" + "".join(f"{time},{value}\n" for time, value in enumerate((8.0, 5.5, 4.25, 2.75, 2.0, 1.5)))
TEXT = "# Abstract {#sec:abstract}\n\nWe fit a decay $\\frac{{a}}{b}$.\n\n# Methods\n\nThe rate is the slope of the logarithm.\n"
FUNCTIONS = (
    {"func_id": "0", "file": "decay/rates.py", "name": "fit_rate", "header_line": 9, "relevant_paper": "The slope.", "description": 'Fit a rate.\n\n:param offset: the "zero"'},
    {"func_id": "1", "file": "decay/rates.py", "name": "half_life", "header_line": 17, "relevant_paper": "", "description": ""},
    {"func_id": "2", "file": "decay/rates.py", "name": "mean_level", "header_line": 22, "relevant_paper": "", "description": "Return a mean."},
    {"func_id": "3", "file": "decay/rates.py", "name": "half_life", "header_line": 18, "relevant_paper": "", "description": ""},
    {"func_id": "4", "file": "decay/absent.py", "name": "fit_rate", "header_line": 4, "relevant_paper": "", "description": ""},
)  # fmt: skip
# By hand: ln 2 / 0.33829 = 2.0490. The level is 61.75 / 21 = 2.9405; the source states another one.
RESULTS = {"rate": -0.3383, "half life": 2.049, "level": 99.0}


def build_sample(*ids: str) -> dict[str, Any]:
    """Return a row of mlrc_n=K.jsonl that hides these functions."""
    details = [
        {"paper_id": PAPER, "line_start": 1, "line_end": 2, **function}
        for function in FUNCTIONS
        if function["func_id"] in ids
    ]
    return {
        "paper_id": PAPER,
        "func_ids": ",".join(ids),
        "func_details": details,
        "experiments": "Experiment 1: Fit the points.\nExperiment 2: Fit them with noise.\n",
        "solution": "echo Experiment 1\npython run.py\necho Experiment 2\npython run.py --noise 0.1 \\\n    --seed 5\n",
        "results": {"Experiment 1": RESULTS, "Experiment 2": {"rate": -0.3, "half life": 2.3, "level": 3.0}},
    }


def write_auto_experiment(folder: Path, samples: dict[int, list[dict[str, Any]]] | None = None) -> Path:
    """Write the source, with these samples by number of hidden functions, and return its folder."""
    code = folder / PAPER / "code"
    (code / "decay").mkdir(parents=True)
    (code / "tables").mkdir()
    texts = {
        "decay/__init__.py": "",
        "decay/rates.py": RATES,
        "run.py": RUN,
        "tables/points.csv": POINTS,
        "README.md": "x",
    }
    for path, text in texts.items():
        (code / path).write_text(text)
    (folder / PAPER / "paper.txt").write_text(TEXT)
    (folder / "mlrc_main.csv").write_text(
        f"Title,github,paper_id,conda_env\nDecay of a signal,https://example.org/d,{PAPER},d\n"
    )
    rows = samples or {
        1: [build_sample("0"), build_sample("1"), build_sample("3")],
        2: [build_sample("0", "2"), build_sample("1", "4")],
    }
    for number, group in rows.items():
        lines = [json.dumps(row) for row in group]
        (folder / f"mlrc_n={number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def commit_files(repository: Path, files: dict[str, str]) -> str:
    """Write and commit files in a new repository, with a link beside them, and return the hash of the commit."""
    for path, text in files.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    os.symlink("/etc/passwd", repository / "data-link.csv")
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q", "."], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()
