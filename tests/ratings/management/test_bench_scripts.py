"""Benchmarks of the site run, name their baseline and print a ratio to it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


def said_by(name: str, *options: str) -> str:
    command = [sys.executable, "-m", f"bench.{name}", "--quick", *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Baseline: " in done.stdout
    return done.stdout


@pytest.mark.thorough
def test_cold_start_benchmark_compares_with_a_site_of_one_page() -> None:
    assert re.search(r"WetBench \d+\.\d\d s of processor time, ratio \d+\.\d\d", said_by("cold_start"))


@pytest.mark.thorough
def test_million_benchmark_compares_pages_of_a_large_and_a_small_site() -> None:
    said = said_by("million", "--database", "sqlite", "--rounds", "1")
    assert re.search(r"^next item +\d+\.\d ms +\d+\.\d ms +\d+\.\d\d", said, flags=re.M)
    assert re.search(r"^study, unblinded +\d+\.\d ms +\d+\.\d ms +\d+\.\d\d", said, flags=re.M)


@pytest.mark.thorough
def test_export_benchmark_compares_with_the_databases_own_export() -> None:
    said = said_by("export", "--database", "sqlite")
    assert re.search(r"^sqlite .+ \d\.\d{3}   +[\d.]+ MB of 100, +[\d.]+ MB of 1,000$", said, flags=re.M)


@pytest.mark.thorough
def test_statistics_benchmark_compares_with_plain_numpy() -> None:
    said = said_by("statistics")
    assert re.search(r"^plain NumPy, three quantities +\d+\.\d s +1\.00  baseline$", said, flags=re.M)
    assert re.search(r"^ours, the document that a page stores +\d+\.\d s +[\d.]+$", said, flags=re.M)
