"""Build task folders from what was read: a paper of the AutoExperiment format, or a commit that holds a task folder."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from simulation.replication.importing.commands import Command, read_commands, write_experiments
from simulation.replication.importing.reading import ImportFault
from simulation.replication.importing.results import ImportedTask
from simulation.replication.importing.sources import CheckedSources, find_missing_packages, find_reached
from simulation.replication.importing.tables import MAX_CASES, FunctionRow, PaperRows
from simulation.replication.tasks.imported_parts import hash_sources
from simulation.replication.tasks.papers import ORACLE_PREFIX
from simulation.replication.tasks.task_files import PACKAGES
from wetbench_site.text import natural_sort_key

SECONDS = 60  # of one experiment
EXPERIMENTS = "experiments.py"
_HEADING_ID = re.compile(r"(?m)^(#{1,4} .*?)\s*\{#[^}\n]*\}[ \t]*$")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")


def build_paper_task(
    paper: PaperRows,
    text: str,
    checked: CheckedSources,
    data: Mapping[str, bytes],
    left_out: Sequence[str],
    seed_argument: str = "",
) -> ImportedTask:
    """Return the task of a paper: `text` is its paper, `data` the files that are no modules. Raises ImportFault."""
    rows = sorted(paper.functions.values(), key=lambda row: natural_sort_key(row.func_id))
    resolved = [row for row in rows if row.func_id in checked.names]
    if not resolved:
        reasons = [f"{row.file}:{row.header_line}: {checked.unresolved[row.func_id]}" for row in rows]
        raise ImportFault(["no function could be found by file and header line", *reasons])
    if EXPERIMENTS in checked.modules:
        raise ImportFault([f"code/{EXPERIMENTS}: this name is taken by what runs the commands; allowed: another name"])
    if len(paper.experiments) > MAX_CASES:
        raise ImportFault([f"{len(paper.experiments)} experiments; allowed: {MAX_CASES}"])
    cases, labels, commands, missing = _build_cases(paper)
    starts, absent = _find_programs(checked, [command for group in commands.values() for command in group])
    reached, outside = find_reached(checked, starts)
    packages, lacking = find_missing_packages(outside)
    missing += [*absent, *lacking, *_find_gpu(checked, reached), *_find_large(left_out)]
    needs = tuple(dict.fromkeys(missing))
    code = {f"code/{path}": module for path, module in checked.modules.items()}
    code[f"code/{EXPERIMENTS}"] = write_experiments(commands, labels, seed_argument)
    ids = {row.func_id: f"f{number}" for number, row in enumerate(resolved, 1)}
    slug = f"paper-{re.sub('[^a-z0-9]+', '-', paper.paper_id.lower())}"
    name = paper.title or f"Paper {paper.paper_id}"
    claims = {
        case: {metric: results[label] for metric, label in labels[case].items()}
        for case, results in _list_results(paper)
    }
    entry = {
        "slug": slug,
        "name": name,
        "summary": f"Imported paper {paper.paper_id}, with the commands of its experiments.",
        "experiments": [],
        "packages": packages,
        "seconds": SECONDS,
        "provenance": f"Imported; code and paper are those of {paper.address or paper.paper_id}.",
        "functions": [_build_function(row, ids[row.func_id], checked) for row in resolved],
        "test_cases": cases,
        "profiles": {},
        "screen": "warn",
        "seed_argument": seed_argument,
        "imported": {
            "format": "autoexperiment",
            "source": paper.address or paper.paper_id,
            "commit": "",
            "code_sha256": hash_sources(code, ""),
            "missing": list(needs),
            "claims": claims,
        },
    }
    passages = {ids[row.func_id]: row.relevant_paper for row in resolved if row.relevant_paper.strip()}
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
        test_cases=len(cases),
        claims=sum(map(len, claims.values())),
        missing=needs,
        unresolved=unresolved,
        left_out=(*left_out, *rejected),
        notes=tuple(paper.notes),
        has_variants=bool(seed_argument),
    )


def _build_cases(
    paper: PaperRows,
) -> tuple[list[dict[str, Any]], dict[str, dict[str, str]], dict[str, list[Command]], list[str]]:
    """Return test cases, names in the output by metric, commands, and what is missing to run them. Raises ImportFault."""
    cases, missing, problems = [], list[str](), list[str]()
    labels: dict[str, dict[str, str]] = {}
    commands: dict[str, list[Command]] = {}
    for number, claim in enumerate(paper.experiments, 1):
        case = f"e{number}"
        labels[case] = {_name_metric(label): label for label in claim.results}
        if len(labels[case]) < len(claim.results) or not claim.results:
            names = ", ".join(map(repr, claim.results)) or "none"
            problems.append(
                f"experiment {claim.text[:60]!r}: results {names}; allowed: one or more, with names that differ"
            )
        commands[case], lacking = read_commands(claim.solution)
        missing += lacking if commands[case] or lacking else [f"commands for the experiment {claim.text[:60]!r}"]
        metrics = [{"name": name, "unit": ""} for name in labels[case]]
        text = claim.text or "Run the experiment."
        cases.append({"id": case, "title": f"Experiment {number}", "text": text, "metrics": metrics})
    if problems:
        raise ImportFault(problems)
    return cases, labels, commands, missing


def _list_results(paper: PaperRows) -> list[tuple[str, Mapping[str, Any]]]:
    return [(f"e{number}", claim.results) for number, claim in enumerate(paper.experiments, 1)]


def _name_metric(label: str) -> str:
    """Return the name of a metric for a name in the output: letters, digits and underscores."""
    name = _NO_NAME.sub("_", label).strip("_")[:38] or "result"
    return name if name[0].isalpha() else f"r_{name}"


def _build_function(row: FunctionRow, identifier: str, checked: CheckedSources) -> dict[str, Any]:
    passages = [f"{ORACLE_PREFIX}{identifier}"] if row.relevant_paper.strip() else []
    return {"id": identifier, "path": f"code/{row.file}", "name": checked.names[row.func_id], "passages": passages}


def _find_programs(checked: CheckedSources, commands: Sequence[Command]) -> tuple[list[str], list[str]]:
    """Return the modules that commands start, and what is missing of them."""
    starts, absent = list[str](), list[str]()
    for command in commands:
        place = command.module.replace(".", "/")
        choices = [command.script] if command.script else [f"{place}.py", f"{place}/__main__.py"]
        present = [path for path in choices if path in checked.modules]
        starts += present
        if not present:
            absent.append(f"the program {command.script or command.module}")
    return starts, absent


def _find_gpu(checked: CheckedSources, reached: set[str]) -> list[str]:
    modules = sorted(checked.gpu_modules & reached)
    return [f"a GPU, which {modules[0]} uses"] if modules else []


def _find_large(left_out: Sequence[str]) -> list[str]:
    large = [text for text in left_out if "allowed for data" in text]
    return [f"{len(large)} data files that are too large to import"] if large else []


def _write_paper(title: str, text: str, passages: Mapping[str, str]) -> str:
    """Return paper.md: the text without marks that have a meaning in our papers, then the passages that the source names for functions."""

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
    left_out: Sequence[str],
) -> ImportedTask:
    """Return the task of a commit. `entry` is its task.json, `files` are paper.md and data/; `checked` has code/ and generate.py.

    `claims` of the entry are results that its authors state. Packages that are not here make the task unvalidated. Raises ImportFault.
    """
    if checked.rejected:
        raise ImportFault([f"{path}: {reason}" for path, reason in checked.rejected.items()])
    if "imported" in entry:
        raise ImportFault(["task.json: imported: allowed: nothing; the import writes it"])
    generator = checked.modules.get("generate.py", "")
    code = {path: text for path, text in checked.modules.items() if path != "generate.py"}
    reached, outside = find_reached(checked, ["code/experiments.py"])
    _, missing = find_missing_packages(outside)
    missing += [*_find_gpu(checked, reached), *_find_large(left_out)]
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
        left_out=tuple(left_out),
        has_variants=bool(generator or entry.get("seed_argument")),
    )
