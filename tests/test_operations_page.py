"""The page of operations, as somebody would follow it: its commands can be read by a shell, its units by systemd, and
what it names of ours is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.services import program
from wetbench_site import gunicorn_conf

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.M | re.S)
SHELL = [text for language, text in BLOCKS if not language and "reverse_proxy" not in text]
UNITS = re.findall(r"`(wetbench-\w+\.\w+)`[^`]*?\n\n```ini\n(.*?)^```", PAGE, flags=re.M | re.S)


@pytest.mark.parametrize("block", SHELL)
def test_a_shell_can_read_every_block_of_commands(block: str) -> None:
    read = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_every_make_target_and_service_that_is_named_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w./]+):", makefile, flags=re.M))
    assert set(re.findall(r"(?:`|&& |^)make ([\w./]+)", PAGE, flags=re.M)) <= targets
    services = set(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"])
    named = re.findall(r"docker compose (?:restart|stop|exec|(?:run|up|logs)(?: --[\w-]+)+) ((?:[a-z]+ ?)+)", PAGE)
    assert named
    assert {name.split()[0] for name in named} <= services


def test_every_web_server_that_is_named_runs_as_it_is_configured() -> None:
    servers = [line for line in PAGE.splitlines() if "gunicorn wetbench_site.wsgi" in line]
    assert len(servers) == 2 and all("-c python:wetbench_site.gunicorn_conf" in line for line in servers)


def test_no_variable_stands_in_the_table_twice() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)`", PAGE.partition("| variable |")[2].partition("\n\n")[0], flags=re.M)
    assert len(rows) > 20 and len(rows) == len(set(rows))


def test_a_site_is_never_reloaded_into_another_version() -> None:
    """Its first process keeps modules of the version it started with, which the reloaded ones would meet."""
    assert "ExecReload" not in PAGE and "systemctl reload" not in PAGE


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    assert [name for name, _ in UNITS] == ["wetbench-web.socket", "wetbench-web.service", "wetbench-worker.service"]
    for name, text in UNITS:
        here = text.replace("/opt/wetbench/.venv/bin/python", sys.executable).replace("User=wetbench\n", "")
        (tmp_path / name).write_text(here, encoding="utf-8")
    told = subprocess.run(
        [program("systemd-analyze"), "verify", *(str(tmp_path / name) for name, _ in UNITS)],
        capture_output=True,
        text=True,
    )
    assert [line for line in told.stderr.splitlines() if "wetbench" in line] == []


def test_one_web_process_alone_is_never_replaced() -> None:
    """Nobody would be answered in the seconds until the next one is there."""
    assert gunicorn_conf.workers == 1 and gunicorn_conf.max_requests == 0
