"""The examples in docs/api.md run unchanged, and the page lists every endpoint."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from ratings.api import responses
from ratings.api.tokens import SCOPE_DESCRIPTIONS
from ratings.api.urls import api
from tests.support import run_factory, study_factory
from tests.support.api_client import create_api_program
from wetbench_site.access_table import ACCESS_TABLE

PAGE = (Path(settings.BASE_DIR) / "docs/api.md").read_text(encoding="utf-8")


@pytest.mark.django_db(transaction=True)
def test_api_docs_examples_run_unchanged(live_server: Any, tmp_path: Path) -> None:
    ada = User.objects.create_user("ada", is_staff=True)
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    type(study).objects.update(created_by=ada)
    study_factory.unblind_study(study, ada)
    text = create_api_program(ada).headers["Authorization"].removeprefix("Bearer ")
    names = {"SITE": live_server.url, "TOKEN": text, "STUDY": study.slug}
    told = []
    for example in re.findall(r"^```sh\n(.+?)^```", PAGE, flags=re.M | re.S):
        run = subprocess.run(
            ["bash", "-ec", example],
            cwd=tmp_path,
            env={**os.environ, **names},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 0, (example, run.stderr)
        told.append(run.stdout)
    assert f'"slug":"{study.slug}"' in told[0] and '"said"' in told[1]  # no worker has computed them
    assert len(told[2].splitlines()) == 20  # ten items, each rated twice
    assert len(told) == 3 and json.loads((tmp_path / "page.json").read_text())["next"] is None


def test_api_docs_list_every_scope_endpoint_and_error() -> None:
    paths = responses.complete_schema(api.get_openapi_schema(path_prefix="api/v1/"))["paths"]
    for path, methods in paths.items():
        written = (
            path.removeprefix("/api/v1/")
            .replace("{slug}", "SLUG")
            .replace("{code}", "CODE")
            .replace("{other}", "OTHER")
        )
        assert f"`{written}`" in PAGE and list(methods) == ["get"], path
        assert all(f"| {status} |" in PAGE for status in methods["get"]["responses"] if int(status) >= 400)
    assert all(f"`{scope}`" in PAGE for scope in SCOPE_DESCRIPTIONS)
    assert len(paths) + 1 == sum(name.startswith("api:") for name in ACCESS_TABLE)
