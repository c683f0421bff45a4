"""Import rules. Each room states its rule in its `__init__.py`, in a line `May import: ...`; docs/architecture.md draws them."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from django.conf import settings

OURS = ("simulation", "ratings", "wetbench_site")
# Folders of Django's app layout, which serve the whole app.
APP_FOLDERS = ("management", "migrations", "templatetags")
# Pure modules that every room may import.
FOR_EVERY_ROOM = ("wetbench_site.text", "wetbench_site.validation")
ABOVE_BOTH_APPS = ("wetbench_site/maintenance", "wetbench_site/management")
# Modules that run without Django in rooms that do not.
WITHOUT_DJANGO = (
    "simulation/casts/casting.py", "simulation/casts/code_casting.py", "simulation/casts/data_files.py",
    "simulation/casts/file_entries.py", "simulation/casts/pricing.py", "simulation/casts/run_config.py",
    "simulation/scripted_server", "ratings/models/study_events.py", "ratings/raters/checker_rater.py", "ratings/results/figures",
    "wetbench_site/text.py", "wetbench_site/validation.py", "wetbench_site/headers.py", "wetbench_site/loopback_only.py",
)  # fmt: skip
# Reference implementations for tests: one is under the GPL, and none is in requirements.txt (pandas is required by statsmodels).
REFERENCE_PACKAGES = ("krippendorff", "statsmodels", "pandas", "pint")
# What a process loads when it first needs it: together these take three times as long to load as all pages.
LOADED_ON_USE = (
    "numpy", "scipy", "sklearn", "altair", "vl_convert", "gymnasium", "openai", "anthropic", "httpx2", "celery", "kombu", "redis",
    "simulation.casts.casting", "simulation.checker.checks", "simulation.offline.rules", "simulation.llm.agent",
)  # fmt: skip
DRAWING_PACKAGES = ("altair", "vl_convert")


def read_room_docstring(folder: Path) -> str:
    """Return the docstring of a room's `__init__.py`."""
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def list_rooms() -> list[str]:
    """Return the folders of both apps, and those of the site, that are rooms: "simulation/lab", "ratings/web" ..."""
    folders = [path for app in OURS for path in sorted((settings.BASE_DIR / app).iterdir()) if path.is_dir()]
    rooms = [
        path
        for path in folders
        if (path / "__init__.py").exists() and path.name not in (*APP_FOLDERS, "sqlite", "postgresql")
    ]
    return [str(path.relative_to(settings.BASE_DIR)) for path in rooms]


def read_rule(room: str) -> tuple[str, ...]:
    """Return what a room may import, as its `__init__.py` states it. AssertionError if it states nothing."""
    line = re.search(r"May import: (.*?)\.$", read_room_docstring(settings.BASE_DIR / room), re.DOTALL | re.MULTILINE)
    assert line, f"{room}/__init__.py has no line `May import: ...`"
    allowed = " ".join(line[1].split())
    return () if allowed == "nothing else of ours" else tuple(allowed.split(", "))


ROOMS = list_rooms()


def list_files(place: str) -> list[Path]:
    path = settings.BASE_DIR / place
    return [path] if path.suffix else sorted(path.rglob("*.py"))


@cache
def list_imports(path: Path) -> tuple[str, ...]:
    """Return every imported name, dotted, including imports inside functions. Each file is parsed once for all tests."""
    return tuple(_find_imports(path))


def _find_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_inside(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_its_rule_allows(room: str) -> None:
    allowed = (room.replace("/", "."), *FOR_EVERY_ROOM, *read_rule(room))
    for path in list_files(room):
        for name in list_imports(path):
            assert not is_inside(name, (*OURS, "tests")) or is_inside(name, allowed), f"{path} imports {name}"


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in ABOVE_BOTH_APPS])
def test_room_rule_allows_only_what_the_room_imports(room: str) -> None:
    imported = [name for path in list_files(room) for name in list_imports(path)]
    for package in read_rule(room):
        assert any(is_inside(name, (package,)) for name in imported), f"{room} does not import {package}"


def test_rooms_have_no_import_cycles() -> None:
    rules = {room.replace("/", "."): read_rule(room) for room in ROOMS if room.startswith(("simulation", "ratings"))}
    TopologicalSorter(rules).prepare()  # CycleError names the rooms


def test_modules_have_no_import_cycles() -> None:
    modules = {}
    for app in OURS:
        for path in list_files(app):
            name = ".".join(path.relative_to(settings.BASE_DIR).with_suffix("").parts)
            modules[name.removesuffix(".__init__")] = path
    graph = {name: set(_list_run_time_imports(path, modules)) - {name} for name, path in modules.items()}
    TopologicalSorter(graph).prepare()


def _list_run_time_imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield our modules that are imported together with this one: not inside functions, not for types alone."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield from [module_name for module_name in (name, str(node.module)) if module_name in modules][:1]


def test_simulation_does_not_import_ratings() -> None:
    for path in list_files("simulation"):
        assert not [name for name in list_imports(path) if is_inside(name, ("ratings",))], path


def test_site_package_does_not_import_the_apps() -> None:
    for path in list_files("wetbench_site"):
        if not str(path.relative_to(settings.BASE_DIR)).startswith(ABOVE_BOTH_APPS):
            assert not [name for name in list_imports(path) if is_inside(name, ("simulation", "ratings"))], path


def test_apps_do_not_import_maintenance_tools() -> None:
    for path in [*list_files("simulation"), *list_files("ratings")]:
        above = [place.replace("/", ".") for place in ABOVE_BOTH_APPS]
        assert not [name for name in list_imports(path) if is_inside(name, tuple(above))], path


def test_views_are_imported_only_by_urls() -> None:
    for app in ("simulation", "ratings"):
        allowed = (f"{app}/web", f"{app}/templatetags", f"{app}/urls.py", f"{app}/apps.py", "ratings/web")
        for path in list_files(app):
            if not str(path.relative_to(settings.BASE_DIR)).startswith(allowed):
                assert not [name for name in list_imports(path) if is_inside(name, (f"{app}.web",))], path


@pytest.mark.parametrize(
    "place",
    [*WITHOUT_DJANGO, *(room for room in ROOMS if "Without Django." in read_room_docstring(settings.BASE_DIR / room))],
)
def test_modules_without_django_do_not_import_it(place: str) -> None:
    for path in list_files(place):
        assert not [name for name in list_imports(path) if name.split(".")[0] == "django"], path


@pytest.mark.parametrize("place", [*OURS, "bench"])
def test_product_code_does_not_import_test_packages(place: str) -> None:
    for path in list_files(place):
        assert not [name for name in list_imports(path) if name.split(".")[0] in REFERENCE_PACKAGES], path
        assert not [name for name in list_imports(path) if is_inside(name, ("django.test",))] or place == "bench", path


def test_only_figures_import_drawing_packages() -> None:
    drawing = [
        path
        for path in list_files("ratings")
        if any(name.split(".")[0] in DRAWING_PACKAGES for name in list_imports(path))
    ]
    assert {path.parent.name for path in drawing} == {"figures"}


@pytest.mark.parametrize(
    ("process", "code", "others"),
    [
        ("command", "pass", ("ninja", "prometheus_client")),
        ("web server", "from django.core.checks import *; run_checks()", ()),
    ],
)
def test_start_of_a_process_loads_no_library_that_few_requests_need(
    process: str, code: str, others: tuple[str, ...]
) -> None:
    names = (*LOADED_ON_USE, *others)
    program = f"import django, sys; django.setup(); {code}; print(*(name for name in {names} if name in sys.modules))"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"a {process} loads them at its start"


@pytest.mark.parametrize("app", ["simulation", "ratings"])
def test_apps_have_few_modules_outside_rooms(app: str) -> None:
    loose = [path.name for path in (settings.BASE_DIR / app).glob("*.py")]
    assert len(loose) <= 8, loose


def test_folders_have_at_most_22_modules() -> None:
    folders = {path.parent for app in OURS for path in list_files(app)}
    # Django finds commands only directly in this folder, and each is a module named as the command.
    folders = {folder for folder in folders if folder.parts[-2:] != ("management", "commands")}
    assert not [folder for folder in folders if len(list(folder.glob("*.py"))) > 22]
