"""The packages `simulation.lab` and `simulation.offline` do not depend on Django."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.modules["django"] = None  # makes `import django` raise ImportError
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.parametrize("package", ["simulation.lab", "simulation.offline"])
def test_every_module_imports_without_django(package):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, package], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3


def test_import_check_fails_if_a_module_imports_django():
    broken = IMPORT_ALL.replace("for name in names", "import django\nfor name in names")
    done = subprocess.run(
        [sys.executable, "-c", broken, "simulation.lab"], cwd=REPOSITORY, capture_output=True, check=False
    )
    assert done.returncode != 0
