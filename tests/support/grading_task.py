"""A small task that grading is tested with: a calibration with five functions in two modules, one of them a method."""

from simulation.replication.values import Metric, Task, TaskFunction, TestCase

CURVES = '''"""Calibration curves."""

import math

import numpy as np

LIMIT = 3.5


def read_numbers(path):
    """Return the numbers of a file, one row a line."""
    return np.array([[float(part) for part in line.split(",")] for line in path.read_text().split()])


def subtract_blank(signal, blank):
    """Return the signal less the mean of the blanks."""
    return np.asarray(signal, dtype=float) - np.mean(blank)


def fit_line(x, y):
    """Return slope and intercept of the least-squares line of y on x."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    centred = x - x.mean()
    slope = (centred * (y - y.mean())).sum() / (centred**2).sum()
    return float(slope), float(y.mean() - slope * x.mean())


def drop_outliers(values, limit=LIMIT):
    """Return the values whose distance to the median is at most `limit` median absolute deviations."""
    values = np.asarray(values, dtype=float)
    distance = np.abs(values - np.median(values))
    return values[distance <= limit * np.median(distance)]


class Calibration:
    """A line from amounts to signals."""

    def __init__(self, slope, intercept):
        self.slope = slope
        self.intercept = intercept

    def predict(self, signal):
        """Return the amount that gives a signal."""
        return (signal - self.intercept) / self.slope

    def describe(self):
        """Return the line as text."""
        return f"y = {self.slope:.3g} x + {self.intercept:.3g}"
'''
REPORT = '''"""Means of replicates."""

import numpy as np

from assay.curves import drop_outliers


def mean_and_error(values):
    """Return the mean of the values that are no outliers, and its standard error."""
    used = drop_outliers(values)
    return float(used.mean()), float(used.std(ddof=1) / np.sqrt(len(used)))
'''
EXPERIMENTS = '''"""The experiments."""

import os

from assay.curves import Calibration, drop_outliers, fit_line, read_numbers, subtract_blank
from assay.report import mean_and_error


def _calibrate(folder):
    table = read_numbers(folder / "standards.csv")
    signal = subtract_blank(table[:, 1], read_numbers(folder / "blanks.csv")[:, 0])
    return fit_line(table[:, 0], signal)


def e1(folder):
    slope, intercept = _calibrate(folder)
    return {"slope": slope, "intercept": intercept}


def e2(folder):
    kept = drop_outliers(read_numbers(folder / "samples.csv")[:, 0])
    return {"kept": len(kept), "range": float(max(kept) - min(kept))}


def e3(folder):
    repeats = int(os.environ.get("repeats", "1"))
    line = Calibration(*_calibrate(folder))
    signal = subtract_blank(read_numbers(folder / "samples.csv")[:, 0], read_numbers(folder / "blanks.csv")[:, 0])
    for _ in range(repeats):
        mean, error = mean_and_error(signal)
    return {"amount": float(line.predict(mean)), "error": float(error / line.slope)}
'''
GENERATOR = """import sys
from pathlib import Path

import numpy as np


def generate(number, folder):
    random = np.random.Generator(np.random.PCG64(number))
    slope, offset = random.uniform(0.5, 5.0), random.uniform(20.0, 60.0)
    x = np.linspace(1.0, 10.0, int(random.integers(6, 10)))
    y = offset + slope * x * (1 + random.normal(0, 0.02, x.size))
    blanks = random.uniform(5, 15) + random.normal(0, 0.1, 4)
    samples = offset + slope * random.uniform(3, 8) * (1 + random.normal(0, 0.03, int(random.integers(7, 12))))
    samples[0] *= 1.8
    write(folder / "standards.csv", np.column_stack([x, y]))
    write(folder / "blanks.csv", blanks[:, None])
    write(folder / "samples.csv", samples[:, None])


def write(path, rows):
    path.write_text("".join(",".join(f"{value:.6f}" for value in row) + "\\n" for row in rows))


if __name__ == "__main__":
    generate(int(sys.argv[1]), Path(sys.argv[2]))
"""

TASK = Task(
    slug="toy-calibration",
    name="A calibration line",
    summary="A line is fitted to standards, and a sample is read from it.",
    experiments=(),
    packages=("numpy",),
    seconds=10,
    provenance="Ours.",
    functions=(
        TaskFunction("f1", "code/assay/curves.py", "subtract_blank"),
        TaskFunction("f2", "code/assay/curves.py", "fit_line"),
        TaskFunction("f3", "code/assay/curves.py", "drop_outliers"),
        TaskFunction("f4", "code/assay/curves.py", "Calibration.predict"),
        TaskFunction("f5", "code/assay/report.py", "mean_and_error"),
    ),
    test_cases=(
        TestCase("e1", "Standards", "", (Metric("slope", rel=0.01), Metric("intercept", rel=0.01))),
        TestCase("e2", "Replicates", "", (Metric("kept", kind="count"), Metric("range", rel=0.01))),
        TestCase("e3", "Sample", "", (Metric("amount", rel=0.01), Metric("error", rel=0.01))),
    ),
    profiles={"full": {"repeats": "3"}, "quick": {"repeats": "1"}},
    screen="refuse",
    paper="# A calibration line\n\nA line is fitted by least squares.\n",
    code={
        "code/assay/__init__.py": "",
        "code/assay/curves.py": CURVES,
        "code/assay/report.py": REPORT,
        "code/experiments.py": EXPERIMENTS,
    },
    generator=GENERATOR,
)
# The test cases that reach each function.
REACHED = {"f1": {"e1", "e3"}, "f2": {"e1", "e3"}, "f3": {"e2", "e3"}, "f4": {"e3"}, "f5": {"e3"}}


def find_cases(function_ids):
    """Return the test cases that a mask reaches, in order; all of them for no function."""
    reached = (
        set().union(*(REACHED[function_id] for function_id in function_ids)) if function_ids else {"e1", "e2", "e3"}
    )
    return sorted(reached)
