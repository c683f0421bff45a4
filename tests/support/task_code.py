"""The reference code of replication tasks as modules, for tests that compare its formulas with other implementations."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from django.conf import settings


def get_task_folder(slug: str) -> Path:
    return settings.FIXTURES_DIR / "replication" / slug


def import_task_module(slug: str, name: str) -> ModuleType:
    """Return the module `name` ("package.module") of the code of a task. Packages of different tasks have different names."""
    code = str(get_task_folder(slug) / "code")
    sys.path.insert(0, code)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(code)


def import_generator(slug: str) -> ModuleType:
    """Return the generator of a task."""
    spec = importlib.util.spec_from_file_location(f"generate_{slug}", get_task_folder(slug) / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
