"""docs/operations.md can be followed: a shell accepts its commands, systemd its units, and everything of ours that it names exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.urls import reverse

from tests.support.services import require_program
from wetbench_site import gunicorn_conf
from wetbench_site.middleware import uploads

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.M | re.S)
SHELL = [text for language, text in BLOCKS if not language and "reverse_proxy" not in text]
UNITS = re.findall(r"`(wetbench-\w+\.\w+)`[^`]*?\n\n```ini\n(.*?)^```", PAGE, flags=re.M | re.S)


@pytest.mark.parametrize("block", SHELL)
def test_operations_page_commands_have_valid_shell_syntax(block: str) -> None:
    process = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


def test_operations_page_names_only_existing_make_targets_and_services() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w./]+):", makefile, flags=re.M))
    assert set(re.findall(r"(?:`|&& |^)make ([\w./]+)", PAGE, flags=re.M)) <= targets
    services = set(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"])
    service_names = re.findall(
        r"docker compose (?:restart|stop|exec|(?:run|up|logs)(?: --[\w-]+)+) ((?:[a-z]+ ?)+)", PAGE
    )
    assert service_names
    assert {name.split()[0] for name in service_names} <= services


def test_operations_page_starts_web_servers_with_the_configuration() -> None:
    servers = [line for line in PAGE.splitlines() if "gunicorn wetbench_site.wsgi" in line]
    assert len(servers) == 2 and all("-c python:wetbench_site.gunicorn_conf" in line for line in servers)


def test_operations_page_lists_each_variable_once() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)`", PAGE.partition("| variable |")[2].partition("\n\n")[0], flags=re.M)
    assert len(rows) > 20 and len(rows) == len(set(rows))


def test_operations_page_never_tells_systemd_to_reload_the_site() -> None:
    """The master process keeps modules of the version it started with, and the reloaded code would use them."""
    assert "ExecReload" not in PAGE and "systemctl reload" not in PAGE


def test_operations_page_units_pass_systemd_analyze(tmp_path: Path) -> None:
    assert [name for name, _ in UNITS] == ["wetbench-web.socket", "wetbench-web.service", "wetbench-worker.service"]
    for name, text in UNITS:
        adapted = text.replace("/opt/wetbench/.venv/bin/python", sys.executable).replace("User=wetbench\n", "")
        (tmp_path / name).write_text(adapted, encoding="utf-8")
    process = subprocess.run(
        [require_program("systemd-analyze"), "verify", *(str(tmp_path / name) for name, _ in UNITS)],
        capture_output=True,
        text=True,
    )
    assert [line for line in process.stderr.splitlines() if "wetbench" in line] == []


def test_single_web_process_is_never_restarted_after_a_number_of_requests() -> None:
    """Nobody would be served in the seconds until its replacement has started."""
    assert gunicorn_conf.workers == 1 and gunicorn_conf.max_requests == 0


def test_operations_page_proxies_accept_the_largest_file_and_form_and_have_time_limits() -> None:
    (caddy,) = (text for language, text in BLOCKS if not language and "reverse_proxy" in text)
    (nginx,) = (text for language, text in BLOCKS if language == "nginx")
    largest_file = max(uploads.MAX_FILE_BYTES.values()) + (1 << 16)
    for text, size, limits in (
        (caddy, r"max_size (\d+)MiB", ("read_header", "read_body")),
        (nginx, r"client_max_body_size (\d+)m;", ("client_header_timeout", "client_body_timeout")),
    ):
        form, file = sorted(int(number) << 20 for number in re.findall(size, text))
        assert form >= settings.DATA_UPLOAD_MAX_MEMORY_SIZE and file >= largest_file
        assert all(re.search(rf"\b{limit} \d+", text) for limit in limits)
        (pattern,) = set(re.findall(r"\^/\S+", text))
        for view in uploads.MAX_FILE_BYTES:
            assert re.search(pattern, reverse(view, args=["one"]))
        assert not re.search(pattern, "/studies/one/members/")
