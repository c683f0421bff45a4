"""Build task folders from what was read: a paper of the AutoExperiment format, or a commit with a task folder."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.replication.importing.commands import Command, read_commands, write_experiments
from simulation.replication.importing.reading import ImportFault, Selection
from simulation.replication.importing.results import ImportedTask
from simulation.replication.importing.sources import CheckedSources, find_missing_packages, find_reached
from simulation.replication.importing.tables import MAX_CASES, PaperRows
from simulation.replication.tasks.imported_parts import hash_sources
from simulation.replication.tasks.papers import ORACLE_PREFIX
from simulation.replication.tasks.task_files import PACKAGES
from wetbench_site.text import format_count, natural_sort_key

SECONDS = 60  # of one experiment
EXPERIMENTS = "experiments.py"
_HEADING_ID = re.compile(r"(?m)^(#{1,4} .*?)\s*\{#[^}\n]*\}[ \t]*$")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


def build_paper_task(
    paper: PaperRows,
    text: str,
    checked: CheckedSources,
    data: Mapping[str, bytes],
    selection: Selection,
    seed_argument: str = "",
) -> ImportedTask:
    """Return the task of a paper. `text` is the text of the paper, `data` are the data files by path. Raises ImportFault."""
    rows = sorted(paper.functions.values(), key=lambda row: natural_sort_key(row.func_id))
    resolved = [row for row in rows if row.func_id in checked.names]
    if not resolved:
        reasons = [f"{row.file}:{row.header_line}: {checked.unresolved[row.func_id]}" for row in rows]
        raise ImportFault(["no function was found by its file and header line", *reasons])
    if EXPERIMENTS in checked.modules:
        raise ImportFault(
            [f"code/{EXPERIMENTS}: this is the name of the module that runs the commands; allowed: another name"]
        )
    experiments = _read_experiments(paper)
    commands = [command for group in experiments.commands.values() for command in group]
    starts, absent = _find_programs(checked, commands)
    packages, lacking = _find_needs(checked, starts, selection)
    needs = tuple(dict.fromkeys([*experiments.missing, *absent, *lacking]))
    code = {f"code/{path}": module for path, module in checked.modules.items()}
    code[f"code/{EXPERIMENTS}"] = write_experiments(experiments.commands, experiments.labels, seed_argument)
    ids = {row.func_id: f"f{number}" for number, row in enumerate(resolved, 1)}
    slug = f"paper-{re.sub('[^a-z0-9]+', '-', paper.paper_id.lower())}"
    name = paper.title or f"Paper {paper.paper_id}"
    passages = {ids[row.func_id]: row.relevant_paper for row in resolved if row.relevant_paper.strip()}
    functions = [
        {
            "id": ids[row.func_id],
            "path": f"code/{row.file}",
            "name": checked.names[row.func_id],
            "passages": [f"{ORACLE_PREFIX}{ids[row.func_id]}"] if ids[row.func_id] in passages else [],
        }
        for row in resolved
    ]
    entry = {
        "slug": slug,
        "name": name,
        "summary": f"Imported paper {paper.paper_id}, with the commands of its experiments.",
        "experiments": [],
        "packages": packages,
        "seconds": SECONDS,
        "provenance": f"Imported; code and paper are those of {paper.address or paper.paper_id}.",
        "functions": functions,
        "test_cases": experiments.cases,
        "profiles": {},
        "screen": "warn",
        "seed_argument": seed_argument,
        "imported": {
            "format": "autoexperiment",
            "source": paper.address or paper.paper_id,
            "commit": "",
            "code_sha256": hash_sources(code, ""),
            "missing": list(needs),
            "claims": experiments.claims,
        },
    }
    files = {"paper.md": _write_paper(name, text, passages).encode(), **_encode(entry, code, data)}
    unresolved = {
        f"{row.func_id} {row.name}": f"{row.file}:{row.header_line}: {checked.unresolved[row.func_id]}"
        for row in rows
        if row.func_id not in checked.names
    }
    rejected = [f"{path}: {reason}" for path, reason in checked.rejected.items()]
    return ImportedTask(
        slug,
        files,
        functions=len(resolved),
        test_cases=len(experiments.cases),
        claims=sum(map(len, experiments.claims.values())),
        missing=needs,
        unresolved=unresolved,
        left_out=(*selection.left_out, *rejected),
        notes=(
            *(f"function {row.func_id} {row.name}: {checked.names[row.func_id]} in {row.file}" for row in resolved),
            *paper.notes,
        ),
        has_variants=bool(seed_argument),
    )


@dataclass
class _Experiments:
    """The experiments of a paper by test case: the entries of task.json, the name of each metric in the output, commands, and claims."""

    cases: list[dict[str, Any]] = field(default_factory=list)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    commands: dict[str, list[Command]] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # to run the commands


def _read_experiments(paper: PaperRows) -> _Experiments:
    """Return the experiments of a paper. Raises ImportFault."""
    if len(paper.experiments) > MAX_CASES:
        raise ImportFault([f"{len(paper.experiments)} experiments; allowed: {MAX_CASES}"])
    experiments, problems = _Experiments(), list[str]()
    for number, claim in enumerate(paper.experiments, 1):
        case, labels = f"e{number}", {_name_metric(label): label for label in claim.results}
        if len(labels) < len(claim.results) or not claim.results:
            names = ", ".join(map(repr, claim.results)) or "none"
            problems.append(
                f"experiment {claim.text[:60]!r}: results {names}; allowed: one or more, with names that differ"
            )
        commands, missing = read_commands(claim.solution)
        if not commands and not missing:
            missing = [f"commands for the experiment {claim.text[:60]!r}"]
        metrics = [{"name": name, "unit": ""} for name in labels]
        text = claim.text or "Run the experiment."
        experiments.cases.append({"id": case, "title": f"Experiment {number}", "text": text, "metrics": metrics})
        experiments.labels[case], experiments.commands[case] = labels, commands
        experiments.claims[case] = {name: claim.results[label] for name, label in labels.items()}
        experiments.missing += missing
    if problems:
        raise ImportFault(problems)
    return experiments


def _name_metric(label: str) -> str:
    """Return the name of a metric for its name in the output: letters, digits and underscores."""
    name = _NO_NAME.sub("_", label).strip("_")[:38] or "result"
    return name if name[0].isalpha() else f"r_{name}"


def _find_programs(checked: CheckedSources, commands: Sequence[Command]) -> tuple[list[str], list[str]]:
    """Return the modules that commands start, and "the program NAME" for each that is missing."""
    starts, absent = list[str](), list[str]()
    for command in commands:
        place = command.module.replace(".", "/")
        choices = [command.script] if command.script else [f"{place}.py", f"{place}/__main__.py"]
        present = [path for path in choices if path in checked.modules]
        starts += present
        if not present:
            absent.append(f"the program {command.script or command.module}")
    return starts, absent


def _find_needs(checked: CheckedSources, starts: Sequence[str], selection: Selection) -> tuple[list[str], list[str]]:
    """Return the packages that programs need, and what else they need that is not available here: other packages, a GPU, omitted data."""
    reached, outside = find_reached(checked, starts)
    packages, missing = find_missing_packages(outside)
    missing += [f"a GPU, which {path} uses" for path in sorted(checked.gpu_modules & reached)[:1]]
    if selection.too_large:
        missing.append(f"{format_count(selection.too_large, 'data file')} beyond the limits of size and number")
    return packages, missing


def _write_paper(title: str, text: str, passages: Mapping[str, str]) -> str:
    """Return paper.md: the text, without the marks of slots and sections of a task's paper, and a section for the passage on each function."""

    def clean(part: str) -> str:
        # In LaTeX, a space between two braces changes nothing.
        return _HEADING_ID.sub(r"\1", part.replace("{{", "{ {").strip())

    parts = [f"# {title}", "## Text of the paper {#text}", clean(text)]
    for identifier, passage in passages.items():
        body = re.sub(r"(?m)^#", " #", clean(passage))
        parts.append(f"## Passage on {identifier} {{#{ORACLE_PREFIX}{identifier}}}\n\n{body}")
    return "\n\n".join(parts) + "\n"


def _encode(entry: Mapping[str, Any], code: Mapping[str, str], data: Mapping[str, bytes]) -> dict[str, bytes]:
    texts = {"task.json": json.dumps(entry, ensure_ascii=False, indent=1) + "\n", **code}
    files = {path: content.encode() for path, content in texts.items()}
    return {**files, **{f"data/{path}": content for path, content in data.items()}}


def build_commit_task(
    entry: Mapping[str, Any],
    source: str,
    commit: str,
    checked: CheckedSources,
    files: Mapping[str, bytes],
    selection: Selection,
) -> ImportedTask:
    """Return the task of a commit. `entry` is its task.json, `files` are paper.md and data/; `checked` has code/ and generate.py.

    `claims` of the entry are results that its authors state. A package that tasks may not use makes the task unvalidated. Raises ImportFault.
    """
    if checked.rejected:
        raise ImportFault([f"{path}: {reason}" for path, reason in checked.rejected.items()])
    if "imported" in entry:
        raise ImportFault(["task.json: imported: allowed: nothing; the import writes it"])
    generator = checked.modules.get("generate.py", "")
    code = {path: text for path, text in checked.modules.items() if path != "generate.py"}
    _, missing = _find_needs(checked, ["code/experiments.py"], selection)
    listed = entry.get("packages")
    if isinstance(listed, list):
        missing += [f"the package {name}" for name in listed if name not in PACKAGES]
        listed = [name for name in listed if name in PACKAGES]
    claims = entry.get("claims", {})
    data = {name: value for name, value in entry.items() if name != "claims"}
    data |= {
        "packages": listed,
        "imported": {
            "format": "git",
            "source": source,
            "commit": commit,
            "code_sha256": hash_sources(code, generator),
            "missing": list(dict.fromkeys(missing)),
            "claims": claims,
        },
    }
    parts = {**files, **_encode(data, code, {})}
    if generator:
        parts["generate.py"] = generator.encode()
        parts = {path: content for path, content in parts.items() if not path.startswith("data/")}
    functions, cases = entry.get("functions"), entry.get("test_cases")
    return ImportedTask(
        str(entry.get("slug", "")),
        parts,
        functions=len(functions) if isinstance(functions, list) else 0,
        test_cases=len(cases) if isinstance(cases, list) else 0,
        claims=sum(len(values) for values in claims.values() if isinstance(values, dict))
        if isinstance(claims, dict)
        else 0,
        missing=tuple(dict.fromkeys(missing)),
        left_out=tuple(selection.left_out),
        has_variants=bool(generator or entry.get("seed_argument")),
    )
