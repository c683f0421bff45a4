"""install.py, which `make` runs before anything else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_pip_installs_the_packages_where_uv_cannot_be_installed(tmp_path: Path) -> None:
    for name in ("install.py", "installer.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "app.lock").write_text("# no package\n")
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    done = subprocess.run(
        [sys.executable, "install.py", "app.lock"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "uv could not be installed; pip installs the packages, which takes some minutes" in done.stdout
    pip = subprocess.run([tmp_path / ".venv/bin/python", "-m", "pip", "--version"], capture_output=True, text=True)
    assert pip.stdout.startswith("pip ")
