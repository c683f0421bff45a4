"""The benchmark of offline steps runs, and a step's time grows no faster than the materials on the bench."""

import subprocess
import sys
from pathlib import Path


def test_offline_benchmark_names_its_baseline_and_finds_at_most_linear_growth():
    done = subprocess.run(
        [sys.executable, "-m", "bench.offline_steps"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if " materials " in line}
    assert "Baseline: a bench of 10 materials" in done.stdout and "Growth: linear or better" in done.stdout
    assert rows["10"][3] == "1.00" and {"100", "1000"} <= set(rows)
