"""Environment variables: which exist, how invalid ones are reported, and secrets in files."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from django.conf import settings

from simulation.providers.base import PROVIDERS
from wetbench_site import environment
from wetbench_site.environment import VARIABLES, InvalidConfiguration

KEY = "f3Zq9-tR0bLx7WnKc2Vd5Ym8Hj1Pg4Su6Aoe_QwIiTzUxBvNhDkEyGfXo"
EXPOSED = {
    "WETBENCH_PROFILE": "production",
    "SECRET_KEY": KEY,
    "WETBENCH_HOSTS": "wetbench.example.org",
    "WETBENCH_URL": "https://wetbench.example.org",
}


def told(environ: Mapping[str, str]) -> list[str]:
    """Return the reported problems, one sentence each."""
    with pytest.raises(InvalidConfiguration) as refused:
        environment.load_environment(environ)
    return [line.removeprefix("- ") for line in str(refused.value).splitlines()[1:]]


def test_environment_without_variables_is_valid_and_selects_the_embedded_profile() -> None:
    read = environment.load_environment({})
    assert not read.is_production
    assert (
        read.get_text("WETBENCH_LOG_FORMAT"),
        read.get_flag("WETBENCH_HTTPS"),
        read.get_integer("WETBENCH_WEB_WORKERS"),
    ) == (
        "line",
        False,
        1,
    )


def test_environment_of_production_defaults_to_https_and_json() -> None:
    read = environment.load_environment(EXPOSED)
    assert read.is_production and read.get_flag("WETBENCH_HTTPS") and read.get_text("WETBENCH_LOG_FORMAT") == "json"
    assert read.get_list("WETBENCH_HOSTS") == ["wetbench.example.org"] and read.get_integer("WETBENCH_WEB_WORKERS") == 2


def test_environment_of_production_requires_key_hosts_and_url() -> None:
    missing = told({"WETBENCH_PROFILE": "production"})
    assert [line.split()[0] for line in missing] == ["SECRET_KEY", "WETBENCH_HOSTS", "WETBENCH_URL"]


def test_environment_errors_are_reported_together_with_the_allowed_values() -> None:
    wrong = {"WETBENCH_PACEE": "1", "WETBENCH_DEBUG": "yes", "EMAIL_PORT": "smtp", "WETBENCH_XYZZY": ""}
    assert told(wrong) == [
        "WETBENCH_PACEE is not a variable of WetBench; did you mean WETBENCH_PACE?",
        "WETBENCH_XYZZY is not a variable of WetBench; docs/operations.md lists all variables",
        "WETBENCH_DEBUG is 'yes'; it must be true or false",
        "EMAIL_PORT is 'smtp'; it must be a whole number from 1 to 65535",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WETBENCH_PROFILE", "prod"), ("WETBENCH_PACE", "0"), ("WETBENCH_PACE", "nan"), ("WETBENCH_PACE", "inf"),
        ("WETBENCH_WEB_WORKERS", "17"), ("WETBENCH_WEB_WORKERS", "2.5"), ("WETBENCH_HOSTS", "https://a.example"),
        ("WETBENCH_HOSTS", "a.example, ,b"), ("WETBENCH_URL", "wetbench.example.org"),
        ("WETBENCH_URL", "https://a.example/path"), ("WETBENCH_URL", "https://a.example:99999"),
        ("DATABASE_URL", "mysql://host/name"), ("DATABASE_URL", "postgres://host"), ("DATABASE_URL", "/a/file"),
        ("CELERY_BROKER_URL", "amqp://host"), ("CELERY_BROKER_URL", "redis://host:port/0"),
        ("CELERY_BROKER_URL", "redis:///0"), ("WETBENCH_LOG_LEVEL", "loud"), ("WETBENCH_LOG_FORMAT", "xml"),
        ("OPENAI_BASE_URL", "ftp://host"), ("OPENAI_BASE_URL", "https://user:word@host"), ("EMAIL_TIMEOUT", "-1"),
        ("WETBENCH_METRICS_TOKEN", "short"), ("WETBENCH_OLD_SECRET_KEYS", f"{KEY},short"), ("SECRET_KEY", "changeme"),
    ],
)  # fmt: skip
def test_environment_error_of_a_malformed_value_names_the_variable(name: str, value: str) -> None:
    (line,) = told({name: value})
    assert line.startswith(f"{name} ") and "must be " in line


def test_environment_error_of_a_malformed_secret_does_not_reveal_it() -> None:
    (line,) = told({"DATABASE_URL": "mysql://root:hunter2hunter2@host/name"})
    assert "hunter2" not in line and line.endswith("or sqlite:///path")


def test_every_secret_can_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for variable in VARIABLES:
        if not variable.secret:
            continue
        database = "postgres://a:b@c/d"
        value = {
            "DATABASE_URL": database,
            "WETBENCH_SCRATCH_DATABASE_URL": database,
            "CELERY_BROKER_URL": "redis://c:6379/0",
        }.get(variable.name, KEY)
        file.write_text(f"{value}\n")
        read = environment.load_environment({f"{variable.name}_FILE": str(file)})
        assert read.values[variable.name] in (value, [value]), variable.name


def test_secret_file_is_rejected_if_it_is_missing_or_the_variable_is_set_too(tmp_path: Path) -> None:
    file = tmp_path / "key"
    (line,) = told({"SECRET_KEY_FILE": str(file)})
    assert line == f"SECRET_KEY_FILE names {file}, which cannot be read: No such file or directory"
    file.write_text(KEY)
    (line,) = told({"SECRET_KEY_FILE": str(file), "SECRET_KEY": KEY})
    assert line == "SECRET_KEY and SECRET_KEY_FILE are both set; set only one of them"
    (line,) = told({"WETBENCH_HOSTS_FILE": str(file)})
    assert line.startswith(
        "WETBENCH_HOSTS_FILE is not a variable of WetBench"
    )  # not a secret, so it cannot be in a file


def test_provider_key_in_a_file_is_used_by_clients_and_not_exported_as_a_variable(
    tmp_path: Path,
) -> None:
    assert {f"{name}_API_KEY" for name in environment.PROVIDERS} == {info.key_variable for info in PROVIDERS.values()}
    (file := tmp_path / "key").write_text("sk-from-a-file\n")
    given = {f"{name}_API_KEY_FILE": str(file) for name in environment.PROVIDERS}
    asked = (
        "import os, django; django.setup()\n"
        "from simulation.casts import model_obstacles; from simulation.providers import base, connections\n"
        "print({model_obstacles.has_key(name) and connections.get_key(name, os.environ) for name in base.PROVIDERS})\n"
        "print([name for name, value in os.environ.items() if 'sk-from' in value])"
    )
    here = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    told = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=settings.BASE_DIR,
        env={**here, **given, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["{'sk-from-a-file'}", "[]"]


def test_worker_that_only_runs_sandboxes_has_a_sandbox_and_no_key_of_a_provider() -> None:
    only = {"WETBENCH_SANDBOX_ONLY": "true"}
    assert environment.load_environment({**only, "OPENAI_API_KEY": ""}).get_flag("WETBENCH_SANDBOX_ONLY")
    assert told({**only, "WETBENCH_SANDBOX": "off", "OPENAI_API_KEY": "sk-secret", "LOCAL_API_KEY": "sk-secret"}) == [
        "WETBENCH_SANDBOX_ONLY is true and WETBENCH_SANDBOX is off; this worker would do nothing",
        "OPENAI_API_KEY is set and WETBENCH_SANDBOX_ONLY is true; unset the key: this worker calls no models",
        "LOCAL_API_KEY is set and WETBENCH_SANDBOX_ONLY is true; unset the key: this worker calls no models",
    ]


def test_email_accepts_one_kind_of_tls_only() -> None:
    both = {"EMAIL_USE_TLS": "true", "EMAIL_USE_SSL": "true"}
    assert told(both) == ["EMAIL_USE_TLS and EMAIL_USE_SSL are both true; set one of them"]
    assert environment.load_environment({"EMAIL_USE_SSL": "true"}).get_flag("EMAIL_USE_SSL")


def test_old_secret_keys_are_a_list_of_keys() -> None:
    older, oldest = KEY[::-1], KEY[5:] + KEY[:5]
    assert environment.load_environment({"WETBENCH_OLD_SECRET_KEYS": f"{older}, {oldest}"}).get_list(
        "WETBENCH_OLD_SECRET_KEYS"
    ) == [
        older,
        oldest,
    ]


def test_command_prints_environment_errors_and_nothing_else() -> None:
    environ = {**os.environ, "WETBENCH_HOST": "a.example", "WETBENCH_PACE": "fast"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=settings.BASE_DIR, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "The environment variables are not valid.",
        "- WETBENCH_HOST is not a variable of WetBench; did you mean WETBENCH_HOSTS?",
        "- WETBENCH_PACE is 'fast'; it must be a number greater than 0",
    ]


def documented_variables() -> dict[str, tuple[str, str]]:
    """Return the allowed values and the default of each variable, from the table of docs/operations.md."""
    text = (Path(settings.BASE_DIR) / "docs/operations.md").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        if re.match(r"\| `[A-Z]", line) and len(cells := [cell.strip() for cell in line.strip("| ").split(" | ")]) == 4:
            for name in re.findall(r"`([A-Z_]+)`", cells[0]):
                found[name] = (cells[2], cells[3])
    return found


def default(variable: environment.Variable) -> str:
    if variable.required:
        return f"{variable.default or 'none'}; required in production"
    production = f"; {variable.production} in production" if variable.production is not None else ""
    return (variable.default or "none") + production


def test_operations_page_has_every_variable_with_allowed_values_and_default() -> None:
    declared = {variable.name: (variable.value_type.allowed, default(variable)) for variable in VARIABLES}
    assert documented_variables() == declared


def test_each_old_secret_key_is_hidden_as_a_secret(tmp_path: Path) -> None:
    one, other = "an-earlier-key-of-this-site", "a-still-earlier-key-of-this-site"
    (tmp_path / "keys").write_text(f"{one}\n{other}\n")
    assert {one, other} <= environment.list_secrets({"WETBENCH_OLD_SECRET_KEYS": f"{one}, {other}"})
    assert {one, other} <= environment.list_secrets({"WETBENCH_OLD_SECRET_KEYS_FILE": str(tmp_path / "keys")})
