"""Read the tables of the AutoExperiment format: mlrc_main.csv, mlrc_funcs.csv and mlrc_n=K.jsonl."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field

from simulation.replication.importing.reading import ImportFault, read_text
from simulation.replication.tasks.imported_parts import ClaimedValue
from simulation.replication.trees import find_path_problem
from wetbench_site.text import parse_json
from wetbench_site.validation import Allowed, StrictModel, find_problems, reject

MAX_TABLE_BYTES, MAX_LINE = 32 * 2**20, 2**20
MAX_SAMPLES, MAX_CASES, MAX_FUNCTIONS = 20_000, 99, 99
# Samples of the paper, for 1 to 5 hidden functions; the published files have fewer.
PAPER_SAMPLES = {1: 85, 2: 977, 3: 8046, 4: 52141, 5: 275990}
_SAMPLES = re.compile(r"mlrc_n=(\d{1,2})\.jsonl")
_HEADING = re.compile(r"(?m)^Experiment (\d{1,3}): ?")
_ECHO = re.compile(r"(?m)^echo Experiment (\d{1,3})[ \t]*$")


def _need_path(path: str) -> str:
    return reject(problem) if (problem := find_path_problem(path)) else path


class _Row(StrictModel):
    """A row of a table. Unknown fields are ignored, because versions of the format differ in them."""

    model_config = ConfigDict(extra="ignore")


class FunctionRow(_Row):
    """A function that the source hides, by file and header line."""

    func_id: Annotated[str, Field(pattern=r"^\w{1,20}$"), Allowed("up to 20 letters and digits")]
    file: Annotated[str, AfterValidator(_need_path)]
    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w{0,99}$"), Allowed("a name")]
    header_line: Annotated[int, Field(ge=1, le=1_000_000)]
    relevant_paper: Annotated[str, Field(max_length=50_000)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""


class SampleRow(_Row):
    """A sample: hidden functions of a paper, with the experiments that reach them."""

    paper_id: Annotated[
        str,
        Field(pattern=r"^[0-9A-Za-z]{1,20}(\.[0-9A-Za-z]{1,20}){0,3}$"),
        Allowed("letters, digits and single dots"),
    ]
    func_ids: str
    func_details: Annotated[list[FunctionRow], Field(max_length=MAX_FUNCTIONS)]
    experiments: str
    solution: str
    results: dict[str, dict[str, ClaimedValue]]


class ExperimentClaim(NamedTuple):
    """An experiment: its description, the text of its commands, and the results that the source states."""

    text: str
    solution: str
    results: Mapping[str, Any]


@dataclass
class PaperRows:
    """All rows of one paper. `samples` has the ids of the functions of each sample, by number of hidden functions."""

    paper_id: str
    title: str = ""
    address: str = ""
    functions: dict[str, FunctionRow] = field(default_factory=dict)
    experiments: list[ExperimentClaim] = field(default_factory=list)
    samples: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)
    case_counts: dict[int, list[int]] = field(default_factory=dict)  # experiments of each sample
    notes: list[str] = field(default_factory=list)


def read_tables(folder: Path) -> dict[str, PaperRows]:
    """Return the papers of the tables by id. Raises ImportFault with every problem."""
    papers: dict[str, PaperRows] = {}
    problems: list[str] = []
    names = sorted(path.name for path in folder.iterdir() if _SAMPLES.fullmatch(path.name))
    # Samples without hidden functions come last, because their results may belong to other settings.
    names.sort(key=lambda name: int(_SAMPLES.fullmatch(name)[1]) or 1000)  # type: ignore[index]
    if not names:
        raise ImportFault([f"{folder.name}: has no file such as mlrc_n=1.jsonl"])
    for name in names:
        try:
            _read_samples(folder / name, papers, problems)
        except ImportFault as fault:
            problems += fault.problems
    try:
        _read_titles(folder, papers)
    except ImportFault as fault:
        problems += fault.problems
    if problems:
        raise ImportFault(problems)
    return dict(sorted(papers.items()))


def count_listed_functions(folder: Path) -> int | None:
    """Return the number of rows of mlrc_funcs.csv, or None if there is no such file. Raises ImportFault."""
    path = folder / "mlrc_funcs.csv"
    return len(_read_csv(path)) if path.exists() else None


def _read_samples(path: Path, papers: dict[str, PaperRows], problems: list[str]) -> None:
    number = int(path.name.removeprefix("mlrc_n=").removesuffix(".jsonl"))
    lines = read_text(path, MAX_TABLE_BYTES).split("\n")
    if len(lines) > MAX_SAMPLES:
        raise ImportFault([f"{path.name}: has {len(lines):,} lines; allowed: {MAX_SAMPLES:,}"])
    for line_number, line in enumerate(lines, 1):
        place = f"{path.name}:{line_number}"
        if not line.strip():
            continue
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"has {len(line):,} characters; allowed: {MAX_LINE:,}")
            data = parse_json(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"{place}: is not JSON: {error}")
            continue
        if faults := find_problems(SampleRow, data):
            problems += [f"{place}: {fault}" for fault in faults]
            continue
        row = SampleRow.model_validate(data)
        paper = papers.setdefault(row.paper_id, PaperRows(row.paper_id))
        problems += [f"{place}: {fault}" for fault in _add_sample(paper, row, number, place)]


def _add_sample(paper: PaperRows, row: SampleRow, number: int, place: str) -> list[str]:
    """Add a sample to its paper, and return its problems."""
    ids = tuple(filter(None, row.func_ids.split(",")))
    problems = []
    if len(ids) != number or sorted(ids) != sorted(detail.func_id for detail in row.func_details):
        problems.append(f"func_ids: is {row.func_ids!r}; allowed: {number} ids, those of func_details")
    for detail in row.func_details:
        if (known := paper.functions.setdefault(detail.func_id, detail)) != detail:
            other = f"{known.file}:{known.header_line} {known.name}"
            problems.append(
                f"func_details: {detail.func_id} differs from the function of this id in an earlier sample: {other}"
            )
    texts, solutions = _split_experiments(_HEADING, row.experiments), _split_experiments(_ECHO, row.solution)
    labels = {label.removeprefix("Experiment ") for label in row.results}
    if not texts or set(texts) != set(solutions) or set(texts) != labels:
        found = f"{len(texts)} experiments, {len(solutions)} solutions, {len(labels)} results"
        problems.append(f'experiments: has {found}; allowed: the same numbers "Experiment 1" to "Experiment k" in each')
        return problems
    for label, text in texts.items():
        claim = ExperimentClaim(text, solutions[label], row.results[f"Experiment {label}"])
        same = [known for known in paper.experiments if known[:2] == claim[:2]]
        if not same:
            paper.experiments.append(claim)
        elif same[0].results != claim.results:
            note = f"{place}: Experiment {label} has other results than the same commands have in an earlier sample, whose results are used"
            paper.notes.append(note)
    paper.samples.setdefault(number, []).append(ids)
    paper.case_counts.setdefault(number, []).append(len(texts))
    return problems


def _split_experiments(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    """Split a text at the lines that match, and return the parts by the number in these lines. Text before the first one is left out."""
    parts = pattern.split(text)
    return {number: part.strip() for number, part in zip(parts[1::2], parts[2::2], strict=True)}


def _read_titles(folder: Path, papers: Mapping[str, PaperRows]) -> None:
    path = folder / "mlrc_main.csv"
    for row in _read_csv(path) if path.exists() else ():
        if paper := papers.get((row.get("paper_id") or "").strip()):
            paper.title = " ".join((row.get("Title") or "").split())[:200]
            paper.address = (row.get("github") or "").strip()[:300]


def _read_csv(path: Path) -> Sequence[Mapping[str, str]]:
    text = read_text(path, MAX_TABLE_BYTES)
    try:
        return list(csv.DictReader(io.StringIO(text, newline=""), restval="", restkey="more", strict=True))
    except csv.Error as error:
        raise ImportFault([f"{path.name}: is not CSV: {error}"]) from error


def describe_samples(papers: Mapping[str, PaperRows], resolved: Mapping[str, set[str]]) -> dict[str, dict[str, Any]]:
    """Return counts by number of hidden functions: samples of the tables, usable ones, those of the paper, and the mean number of experiments.

    A sample is usable if all its functions are in `resolved`, which has the ids of the functions that were found, by paper.
    """
    counts = {}
    for number in sorted({number for paper in papers.values() for number in paper.samples}):
        samples = [(paper.paper_id, ids) for paper in papers.values() for ids in paper.samples.get(number, ())]
        cases = [count for paper in papers.values() for count in paper.case_counts.get(number, ())]
        counts[str(number)] = {
            "here": len(samples),
            "usable": sum(set(ids) <= resolved.get(paper_id, set()) for paper_id, ids in samples),
            "in_paper": PAPER_SAMPLES.get(number),
            "mean_experiments": round(sum(cases) / len(cases), 2),
        }
    return counts
