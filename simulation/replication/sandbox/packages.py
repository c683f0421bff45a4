"""Find the interpreter and the installed packages that a sandbox mounts read-only, and describe them."""

import functools
import importlib.metadata
import importlib.util
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from simulation.replication.sandbox.base import PACKAGES, SandboxFault

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@functools.cache
def find_package_mounts(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return (path on the host, path in the sandbox) of everything that these distributions and their requirements install.

    Raises SandboxFault if one of `names` is not installed.
    """
    mounts: dict[str, str] = {}
    pending, done = [*names], set[str]()
    while pending:
        name = pending.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in done:
            continue
        done.add(key)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in names:
                raise SandboxFault(f"package {name!r} is not installed here") from None
            continue  # a requirement for another platform or Python version
        for top in sorted({path.parts[0] for path in distribution.files or ()}):
            source = Path(str(distribution.locate_file(top)))
            if top not in ("..", "__pycache__", "bin") and source.exists():
                mounts[str(source)] = f"{PACKAGES}/{top}"
        for requirement in distribution.requires or ():
            match = _NAME.match(requirement)
            if match and "extra ==" not in requirement:
                pending.append(match.group())
    return tuple(sorted(mounts.items()))


def list_uncompiled_packages(names: Iterable[str]) -> list[Path]:
    """Return the folders of those installed packages, by import name, that have no compiled code.

    Sandboxes see packages read-only, so each one that imports such a package compiles it again.
    """
    origins = [Path(spec.origin) for name in names if (spec := importlib.util.find_spec(name)) and spec.origin]
    return [path.parent for path in origins if not Path(importlib.util.cache_from_source(str(path))).exists()]


@functools.cache
def find_interpreter() -> tuple[str, str]:
    """Return (base folder of the running interpreter on the host, the same inside): "/python", or "/usr" if it is installed there."""
    base = str(Path(sys.base_prefix).resolve())
    return base, "/usr" if base == "/usr" else "/python"


@functools.cache
def find_hidden_folders() -> tuple[str, ...]:
    """Return the folders inside the sandbox with packages of the base interpreter, which sandboxes hide."""
    base, inside = find_interpreter()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [Path(base, "lib", version, "site-packages"), Path(base, "lib", version, "dist-packages")]
    hidden = [inside + str(folder)[len(base) :] for folder in folders if folder.is_dir()]
    system = ("/usr/lib/python3/dist-packages", f"/usr/lib/{version}/dist-packages")
    return tuple(sorted({*hidden, *(folder for folder in system if Path(folder).is_dir())}))


def is_shared_build() -> bool:
    """Return whether the interpreter loads libpython; without its folder it would silently load the system's."""
    return bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))


def describe_environment(packages: Iterable[str]) -> dict[str, str]:
    """Return what computed values may depend on: Python, the kind of machine, and the versions of these packages.

    Raises importlib.metadata.PackageNotFoundError.
    """
    versions = {name: importlib.metadata.version(name) for name in sorted(set(packages))}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}
