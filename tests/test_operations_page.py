"""docs/operations.md can be followed: a shell accepts its commands, systemd its units, and everything of ours that it names exists."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.conf import settings
from django.urls import reverse

from tests.support.services import require_program
from wetbench_site import checks, environment, gunicorn_conf
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
    services = [f"wetbench-{name}.service" for name in ("web", "worker", "sandboxes")]
    assert [name for name, _ in UNITS] == ["wetbench-web.socket", *services]
    for name, text in UNITS:
        adapted = text.replace("/opt/wetbench/.venv/bin/python", sys.executable).replace("User=wetbench\n", "")
        (tmp_path / name).write_text(adapted, encoding="utf-8")
    process = subprocess.run(
        [require_program("systemd-analyze"), "verify", *(str(tmp_path / name) for name, _ in UNITS)],
        capture_output=True,
        text=True,
    )
    assert [line for line in process.stderr.splitlines() if "wetbench" in line] == []


def test_operations_page_unit_of_sandboxes_is_the_only_one_that_runs_them_and_removes_the_keys_of_providers() -> None:
    units = dict(UNITS)
    sandboxes = units["wetbench-sandboxes.service"]
    assert "Environment=WETBENCH_SANDBOX=bubblewrap WETBENCH_SANDBOX_ONLY=true\n" in sandboxes
    (removed,) = re.findall(r"^UnsetEnvironment=(.*)$", sandboxes, flags=re.M)
    assert {f"{provider}_API_KEY" for provider in environment.PROVIDERS} <= set(removed.split())
    assert "RestrictNamespaces" not in sandboxes  # bubblewrap makes them
    for name in ("wetbench-web.service", "wetbench-worker.service"):
        assert "Environment=WETBENCH_SANDBOX=off\n" in units[name]


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


BACKUP_UNITS = re.findall(
    r"`/etc/systemd/system/(wetbench-backup\.\w+)`[^`]*?\n\n```ini\n(.*?)^```", PAGE, flags=re.M | re.S
)
SERVICES = {name: text for name, text in [*UNITS, *BACKUP_UNITS] if name.endswith(".service")}


def test_operations_page_has_a_timer_that_runs_the_backup_command() -> None:
    units = dict(BACKUP_UNITS)
    assert list(units) == ["wetbench-backup.service", "wetbench-backup.timer"]
    assert "Type=oneshot" in units["wetbench-backup.service"]
    command = ".venv/bin/python manage.py backup /var/backups/wetbench --keep-daily 14 --keep-weekly 8"
    assert f"ExecStart=/opt/wetbench/{command}\n" in units["wetbench-backup.service"] and f"\n{command}\n" in PAGE
    assert {"OnCalendar=*-*-* 03:00:00", "Persistent=yes"} <= set(units["wetbench-backup.timer"].splitlines())


def test_operations_page_backup_units_pass_systemd_analyze(tmp_path: Path) -> None:
    for name, text in BACKUP_UNITS:
        adapted = text.replace("/opt/wetbench/.venv/bin/python", sys.executable).replace("User=wetbench\n", "")
        (tmp_path / name).write_text(adapted, encoding="utf-8")
    paths = [str(tmp_path / name) for name, _ in BACKUP_UNITS]
    process = subprocess.run([require_program("systemd-analyze"), "verify", *paths], capture_output=True, text=True)
    assert [line for line in process.stderr.splitlines() if "wetbench" in line] == []


@pytest.mark.parametrize("name", SERVICES)
def test_service_can_write_its_data_and_reach_the_network(name: str) -> None:
    settings = dict(line.split("=", 1) for line in SERVICES[name].splitlines() if "=" in line)
    assert settings["User"] == "wetbench" and settings["StateDirectory"] == "wetbench"
    assert settings["StateDirectoryMode"] == "0700" and settings["ProtectSystem"] == "strict"
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} <= set(settings["RestrictAddressFamilies"].split())
    assert not {"PrivateNetwork", "MemoryDenyWriteExecute"} & set(settings)
    assert ("IPAddressDeny" in settings) == (name == "wetbench-sandboxes.service")
    assert ("ReadWritePaths" in settings) == (name == "wetbench-backup.service")


@pytest.mark.optional
@pytest.mark.parametrize("name", SERVICES)
def test_service_has_an_exposure_level_below_4(name: str, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing")
    (tmp_path / name).write_text(SERVICES[name], encoding="utf-8")
    command = [program, "security", "--offline=true", str(tmp_path / name)]
    process = subprocess.run(command, capture_output=True, text=True)
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", process.stdout)
    assert level and float(level[1]) < 4, process.stdout + process.stderr


def test_secret_key_of_the_install_commands_is_accepted_in_production() -> None:
    commands = re.findall(r"SECRET_KEY=\$\((.*?)\)|\"\$\((openssl rand -base64 48)\)\" > secret_key", PAGE)
    assert len(commands) == 2 and "50 characters or more" in PAGE
    for parts in commands:
        key = subprocess.run(["sh", "-c", "".join(parts)], capture_output=True, text=True, check=True).stdout.strip()
        assert not checks._is_weak_key(key), parts


def test_environment_file_and_data_folder_are_closed_to_other_accounts() -> None:
    assert "install -m 0600 /dev/null /etc/wetbench.env" in PAGE
    assert "install -d -o wetbench -g wetbench -m 0700 /var/lib/wetbench" in PAGE
    assert "install -d -o wetbench -g wetbench -m 0700 /var/backups/wetbench" in PAGE
