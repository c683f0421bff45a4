"""Who imports whom, as docs/architecture.md says."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

# package or module -> what of ours it may import
ALLOWED = {
    "simulation/lab": ("simulation.lab",),
    "simulation/checker": ("simulation.lab", "simulation.checker"),
    "simulation/offline": ("simulation.lab", "simulation.offline"),
    "simulation/providers": ("simulation.providers",),
    "simulation/scripted_server": ("simulation.scripted_server",),
    "simulation/llm": ("simulation.lab", "simulation.checker", "simulation.providers.base", "simulation.llm"),
    "simulation/casts/pricing.py": ("simulation.providers.base",),
    "simulation/casts/setups.py": ("simulation.providers",),
    "ratings/stats": ("ratings.stats",),
    "ratings/protocol/planning": ("ratings.protocol.planning",),
    "ratings/models/study_events.py": (),
    "ratings/blinding/naming.py": (),
    "ratings/blinding/lanes.py": ("ratings.blinding.naming",),
    "ratings/blinding/batches.py": ("ratings.blinding.lanes",),
    "ratings/blinding/marking.py": ("ratings.blinding.batches", "ratings.blinding.lanes"),
    "ratings/blinding/allow_list.py": ("ratings.blinding.lanes", "ratings.blinding.marking", "ratings.blinding.naming"),
    "ratings/blinding/balance.py": (
        "ratings.blinding.lanes",
        "ratings.blinding.naming",
        "simulation.lab.quantities",
        "simulation.lab.errors",
    ),
    "ratings/blinding/observing.py": ("ratings.blinding.batches", "ratings.blinding.marking"),
    "ratings/blinding/screen.py": (
        "ratings.blinding.balance",
        "ratings.blinding.batches",
        "ratings.blinding.lanes",
        "ratings.blinding.marking",
        "ratings.blinding.observing",
    ),
    "ratings/blinding/comparing.py": ("ratings.blinding.lanes", "ratings.blinding.marking"),
    "ratings/results/figures": ("ratings.results.figures",),
    "ratings/results/analyses": (
        "ratings.results.analyses",
        "ratings.studies.crossover",
        "ratings.results.declared_models",
        "ratings.results.figures.names",
        "ratings.results.figures.registry",
        "ratings.results.item_lines",
        "ratings.results.paper_values",
        "ratings.protocol.reference",
        "ratings.studies.job_access",
        "ratings.raters.machines.machines",
        "ratings.models",
        "ratings.protocol.protocols",
        "ratings.results.rows",
        "ratings.stats",
        "ratings.studies.progress.stopping",
        "simulation.jobs.jobs",
        "simulation.models",
    ),
    "ratings/results/benchmarks": (
        "ratings.results.analyses.document",
        "ratings.results.analyses.tables",
        "ratings.results.declared_models",
        "ratings.results.benchmarks",
        "ratings.results.figures.registry",
        "ratings.models",
        "ratings.results.paper_values",
        "ratings.stats",
        "simulation.runs.causes",
        "simulation.jobs.jobs",
        "simulation.models",
        "simulation.casts.pricing",
    ),
    "ratings/api": (
        "ratings.studies.access",
        "ratings.results.analyses",
        "ratings.api",
        "ratings.exchange.archive.fields",
        "ratings.exchange.exports",
        "ratings.protocol.reference",
        "ratings.models",
        "ratings.protocol.reference",
        "ratings.results.study_pairs",
        "ratings.results.rows",
        "ratings.studies.progress.stopping",
        "ratings.studies.lifecycle",
        "ratings.models.study_events",
        "simulation.lab.bench",
        "simulation.models",
        "wetbench_site",
    ),
    "ratings/exchange/archive": (
        "ratings.studies.pool.accepted_unread",
        "ratings.results.analyses",
        "ratings.exchange.archive",
        "ratings.protocol.choices",
        "ratings.exchange.codebook",
        "ratings.studies.crossover",
        "ratings.results.drawings",
        "ratings.results.event_sentences",
        "ratings.exchange.exports",
        "ratings.results.figures",
        "ratings.studies.job_access",
        "ratings.raters.machines.machines",
        "ratings.models",
        "ratings.blinding.naming",
        "ratings.protocol.protocols",
        "ratings.results.paper_values",
        "ratings.protocol.reference",
        "ratings.results.rows",
        "ratings.stats",
        "ratings.studies.progress.stopping",
        "ratings.studies.lifecycle",
        "ratings.models.study_events",
        "simulation.jobs.job_files",
        "simulation.jobs.jobs",
        "simulation.models",
    ),
    "ratings/blinding/machine_rows.py": ("ratings.blinding.lanes", "ratings.blinding.marking"),
    "ratings/raters/machines/machine_checker.py": (
        "ratings.blinding.lanes",
        "ratings.blinding.marking",
        "ratings.blinding.naming",
        "simulation.checker",
    ),
    "simulation/offline/gym.py": ("simulation.lab", "simulation.offline"),
    "simulation/lab_report/rehearsal.py": ("simulation.lab", "simulation.offline"),
    "simulation": (
        "simulation",
        "wetbench_site.database",
        "wetbench_site.observability.gauges",
        "wetbench_site.observability.log_context",
        "wetbench_site.migration_state",
        "wetbench_site.observability.readiness_checks",
        "wetbench_site.starting",
    ),
    "wetbench_site": ("wetbench_site",),
}
WITHOUT_DJANGO = (
    "wetbench_site/observability/log_context.py",
    "simulation/lab", "simulation/checker", "simulation/offline", "simulation/offline/gym.py", "simulation/lab_report/rehearsal.py", "simulation/lab_report/report.py",
    "simulation/providers", "simulation/scripted_server", "simulation/llm", "simulation/casts/pricing.py", "simulation/casts/setups.py", "simulation/casts/casting.py",
    "simulation/lab_report/report_tables.py", "simulation/casts/datafiles.py", "ratings/stats", "ratings/protocol/planning", "ratings/results/figures",
    "ratings/blinding/comparing.py", "ratings/protocol/protocols.py", "ratings/protocol/protocol_problems.py", "ratings/studies/protocol_words.py", "ratings/protocol/choices.py",
    "ratings/blinding/naming.py", "ratings/blinding/lanes.py", "ratings/blinding/batches.py", "ratings/blinding/marking.py", "ratings/blinding/allow_list.py",
    "ratings/blinding/balance.py", "ratings/blinding/observing.py", "ratings/blinding/screen.py", "ratings/blinding/machine_rows.py", "ratings/raters/machines/machine_checker.py",
    "ratings/models/study_events.py",
)  # fmt: skip


# Oracles of the tests: one is under the GPL, and none is in requirements.txt (pandas comes with statsmodels).
ORACLES = ("krippendorff", "statsmodels", "pandas")
DRAWS = ("altair", "vl_convert")


def files(place: str) -> list[Path]:
    path = settings.BASE_DIR / place
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("place", sorted(ALLOWED))
def test_a_room_imports_only_from_rooms_it_may_know(place: str) -> None:
    for path in files(place):
        for name in imported(path):
            ours = name.split(".")[0] in ("simulation", "ratings", "wetbench_site", "tests")
            assert not ours or name.startswith(ALLOWED[place]), f"{path} imports {name}"


@pytest.mark.parametrize("place", WITHOUT_DJANGO)
def test_the_core_knows_no_django(place: str) -> None:
    for path in files(place):
        assert not [name for name in imported(path) if name.split(".")[0] == "django"], path


def test_what_a_study_does_knows_no_page() -> None:
    views = settings.BASE_DIR / "ratings/web"
    urls = (settings.BASE_DIR / "ratings/urls.py", settings.BASE_DIR / "ratings/web/account/sign_in_urls.py")
    for path in files("ratings"):
        if path not in urls and views not in path.parents:
            assert not [name for name in imported(path) if name.startswith("ratings.web")], path


@pytest.mark.parametrize("place", ["simulation", "ratings", "wetbench_site", "bench"])
def test_what_only_tests_may_use_is_imported_by_no_room(place: str) -> None:
    for path in files(place):
        assert not [name for name in imported(path) if name.split(".")[0] in ORACLES], path


@pytest.mark.parametrize("place", ["simulation", "ratings", "wetbench_site"])
def test_no_module_of_the_product_imports_the_test_client(place: str) -> None:
    for path in files(place):
        assert not [name for name in imported(path) if f"{name}.".startswith("django.test.")], path


def test_figures_alone_know_what_draws() -> None:
    knowing = {
        path.relative_to(settings.BASE_DIR / "ratings").parts[0]
        for path in files("ratings")
        if any(name.split(".")[0] in DRAWS for name in imported(path))
    }
    assert knowing == {"figures"}
