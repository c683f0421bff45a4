"""The Dockerfile and compose.yaml do what they state: their commands run here as in a container, as a user without write access.

No container engine is needed. What an image would contain is copied into a folder that its user cannot write to, secrets are
files, and PostgreSQL and Redis belong to this test run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import check_jsonschema
import jsonschema
import pytest
import yaml

from tests.support.services import PostgresCluster, RedisServer, find_free_port
from wetbench_site.environment import VARIABLES, InvalidConfiguration, load_environment

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OURS = {name: service for name, service in COMPOSE["services"].items() if service.get("image") == "wetbench"}


def test_compose_file_is_valid_by_its_published_schema() -> None:
    schema = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor/compose-spec.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(COMPOSE)


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_containers_are_read_only_and_gain_no_privileges(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service.get("user", "wetbench" if service.get("image") == "wetbench" else "root") != "root"
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, flags=re.M) == ["wetbench"]


def test_container_logs_are_limited_in_size() -> None:
    for service in COMPOSE["services"].values():
        assert {"max-size", "max-file"} <= set(service["logging"]["options"])


def test_compose_publishes_the_site_on_localhost_only_and_no_database() -> None:
    ports = {name: service["ports"] for name, service in COMPOSE["services"].items() if "ports" in service}
    assert ports == {"web": ["127.0.0.1:8000:8000"]}
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert [COMPOSE["services"][name]["networks"] for name in ("postgres", "redis")] == [["inside"], ["inside"]]


def test_compose_uses_only_known_variables_and_passes_secrets_as_files() -> None:
    known = {variable.name: variable for variable in VARIABLES}
    given = OURS["web"]["environment"]
    for name, value in given.items():
        variable = known[name.removesuffix("_FILE")]
        assert variable.secret and name.endswith("_FILE"), name
        assert value.removeprefix("/run/secrets/") in OURS["web"]["secrets"]
    assert set(OURS["web"]["secrets"]) <= set(COMPOSE["secrets"])
    assert {file["file"] for file in COMPOSE["secrets"].values()} == {f"secrets/{name}" for name in COMPOSE["secrets"]}
    assert set(re.findall(r"(WETBENCH_\w+)=", DOCKERFILE)) <= set(known)


def test_service_that_runs_sandboxes_has_no_key_of_a_provider_and_no_way_out() -> None:
    service = OURS["sandboxes"]
    names = {name.removesuffix("_FILE") for name in service["environment"]}
    assert not [name for name in (*names, *service["secrets"]) if name.upper().endswith("_API_KEY")]
    assert names == {"SECRET_KEY", "DATABASE_URL", "CELERY_BROKER_URL", "WETBENCH_SANDBOX", "WETBENCH_SANDBOX_ONLY"}
    assert service["networks"] == ["inside"] and service["command"][2:] == ["worker", "--without-dispatcher"]
    assert {"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"} <= set(service["security_opt"])
    # A key in wetbench.env would reach this service too: then it does not start.
    started = {name: service["environment"][name] for name in ("WETBENCH_SANDBOX", "WETBENCH_SANDBOX_ONLY")}
    assert load_environment(started).get_flag("WETBENCH_SANDBOX_ONLY")
    with pytest.raises(InvalidConfiguration, match="OPENAI_API_KEY is set and WETBENCH_SANDBOX_ONLY is true"):
        load_environment({**started, "OPENAI_API_KEY": "dummy"})


def test_other_services_run_no_sandboxes() -> None:
    assert "WETBENCH_SANDBOX=off" in DOCKERFILE and re.search(r"apt-get install .*\bbubblewrap\b", DOCKERFILE)
    for name, service in OURS.items():
        if name != "sandboxes":
            assert not [variable for variable in service["environment"] if variable.startswith("WETBENCH_SANDBOX")]
            assert "seccomp=unconfined" not in service["security_opt"]


def test_dockerignore_allows_exactly_what_the_image_copies() -> None:
    copied = {source.removeprefix("./") for source in re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, flags=re.M)}
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_base_images_are_pinned_by_digest() -> None:
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.M)
    images = [service["image"] for service in COMPOSE["services"].values() if service.get("image") != "wetbench"]
    assert len(stages) == 2 and len(set(stages)) == 1 and len(images) == 2
    # The tag stays in front of the digest: it names the version, and its current digest is looked up by it.
    for image in (*stages, *images):
        assert re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert all(image.partition("@")[0] in page for image in (*stages, *images))


def test_image_has_the_postgresql_client_of_the_server_version() -> None:
    assert re.findall(r"postgresql-client-(\d+)", DOCKERFILE) == re.findall(
        r"postgres:(\d+)-", COMPOSE["services"]["postgres"]["image"]
    )


def test_image_packages_are_available() -> None:
    """Run the install command with --dry-run; installed packages are not downloaded."""
    tools = ROOT / ".tools/bin/python"  # .venv has no pip
    if not tools.exists():
        pytest.skip("pip is not installed: `make .tools/bin/uv` installs it")
    line = next(line for line in DOCKERFILE.splitlines() if "pip install" in line)
    words = line.replace("/requirements.lock", str(ROOT / "requirements.lock")).split()
    index = words.index("/venv/bin/python", 2)
    process = subprocess.run(
        [tools, "-m", "pip", "--python", sys.executable, *words[index + 3 :], "--dry-run", "--quiet"],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what `COPY` would put into the image, readable by all and writable only by us."""
    folder = tmp_path_factory.mktemp("image")
    for name in re.findall(r"^COPY (?!--from)(?!requirements)(\S+) ", DOCKERFILE, flags=re.M):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


@pytest.fixture(scope="module")
def safe_postgres() -> Iterator[PostgresCluster]:
    """A cluster with fsync, which production requires."""
    with PostgresCluster.run_cluster(fsync="on") as cluster:
        yield cluster


class Container:
    """Run commands of one service with its environment and without privileges."""

    def __init__(self, image: Path, environment: dict[str, str], here: dict[str, str]) -> None:
        self.image, self.environment, self.here = image, environment, here

    def start_command(self, command: list[str]) -> subprocess.Popen[str]:
        words = [self._use_local_paths(word) for word in command]
        # Root without capabilities has only the rights of the file modes, like any user.
        without_privileges = (
            ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if os.geteuid() == 0 else []
        )
        return subprocess.Popen(
            [*without_privileges, *words],
            cwd=self.image,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run_command(self, command: list[str]) -> str:
        output, _ = (process := self.start_command(command)).communicate(timeout=120)
        assert process.returncode == 0, output
        return output

    def wait_until_healthy(self, command: list[str], seconds: float = 40) -> str:
        """Return the output of a health check once it succeeds; containers have a start period too."""
        deadline = time.monotonic() + seconds
        while True:
            process = self.start_command(command)
            output, _ = process.communicate(timeout=60)
            if process.returncode == 0:
                return output
            assert time.monotonic() < deadline, output
            time.sleep(0.5)

    @contextmanager
    def run_in_background(self, command: list[str]) -> Iterator[None]:
        process = self.start_command(command)
        try:
            yield
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=60)
        assert process.returncode in (0, -15), output

    def _use_local_paths(self, word: str) -> str:
        word = sys.executable if word == "python" else word.replace("python manage.py", f"{sys.executable} manage.py")
        for there, here in self.here.items():
            word = word.replace(there, here)
        return word


@pytest.fixture
def container(image: Path, tmp_path: Path, safe_postgres: PostgresCluster, redis_server: RedisServer) -> Container:
    texts = {
        "secret_key": "a-secret-key-of-this-test-alone-0123456789-abcdefghijklmnop",
        "database_url": safe_postgres.create_database("containers"),
        "celery_broker_url": redis_server.url,
        "metrics_token": "a-token-of-this-test-alone",
    }
    secrets, var = tmp_path / "secrets", tmp_path / "var"
    for folder in (secrets, var):
        folder.mkdir()
    for name in COMPOSE["secrets"]:
        (secrets / name).write_text(texts.get(name, ""), encoding="utf-8")
    compose_environment = {
        name: value.replace("/run/secrets", str(secrets)) for name, value in OURS["web"]["environment"].items()
    }
    fixed_environment = {"WETBENCH_PROFILE": "production", "WETBENCH_VAR_DIR": str(var), "PYTHONDONTWRITEBYTECODE": "1"}
    site_environment = {"WETBENCH_HOSTS": "wetbench.example.org", "WETBENCH_URL": "https://wetbench.example.org"}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(var),
        **compose_environment,
        **fixed_environment,
        **site_environment,
    }
    (backups := tmp_path / "backups").mkdir()
    here = {"0.0.0.0:8000": f"0.0.0.0:{(port := find_free_port())}", ":8000/": f":{port}/", "/backups": str(backups)}
    return Container(image, environment, here)


@pytest.mark.services
def test_container_commands_run_and_health_checks_pass(container: Container) -> None:
    assert "Applying ratings.0001_squashed" in container.run_command(OURS["migrate"]["command"])
    cmd = json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE, flags=re.M)[0])
    with container.run_in_background(cmd), container.run_in_background(OURS["dispatcher"]["command"]):
        container.wait_until_healthy(OURS["web"]["healthcheck"]["test"][1:])
        assert "dispatcher" in container.wait_until_healthy(OURS["dispatcher"]["healthcheck"]["test"][1:])
        with container.run_in_background(OURS["worker"]["command"]):
            deadline = time.monotonic() + 40
            while "celery" not in container.wait_until_healthy(OURS["worker"]["healthcheck"]["test"][1:]):
                assert time.monotonic() < deadline
    assert "0 ratings" in container.run_command(OURS["backup"]["command"])


@pytest.mark.services
def test_redis_password_is_required_and_not_on_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "redis_password").write_text("pass-word-0123", encoding="utf-8")
    (tmp_path / "data").mkdir()
    service, port = COMPOSE["services"]["redis"], find_free_port()
    shell, option, script = service["command"]
    # A dollar sign is doubled in a compose file.
    for there, here in {
        "$$": "$",
        "/run/secrets": str(tmp_path),
        "/data": str(tmp_path / "data"),
        "/tmp/redis": f"{tmp_path}/redis",
    }.items():
        script = script.replace(there, here)
    process = subprocess.Popen([shell, option, f"{script} --port {port}"], stdout=subprocess.DEVNULL)
    try:
        ask = [shutil.which("redis-cli") or "redis-cli", "-p", str(port), "ping"]
        with_password = {**os.environ, "REDISCLI_AUTH": "pass-word-0123"}
        deadline = time.monotonic() + 20
        while "PONG" not in subprocess.run(ask, env=with_password, capture_output=True, text=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "NOAUTH" in subprocess.run(ask, capture_output=True, text=True).stdout
        # PID 1 of the container is the server itself, so that it receives the signal to stop.
        assert b"redis-server" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        command_lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert not [line for line in command_lines if b"pass-word-0123" in line]
        assert (tmp_path / "redis.conf").stat().st_mode & 0o777 == 0o600
    finally:
        process.terminate()
        process.wait(20)
    assert "requirepass" not in script.partition("exec ")[2]
