"""The list of all files of an archive, in order of their names. Only workers and commands import this module: it draws charts."""

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.conf import settings

from ratings.exchange.archive import design, entries, fields, judged, methods, readme, results_files, study_files
from ratings.exchange.archive.design import Spread
from ratings.exchange.archive.entries import Entry
from ratings.models import Analysis, Study
from ratings.studies.crossover import find_conditions, find_names

# the libraries whose version can change a number or a chart
LIBRARIES = ("Django", "numpy", "scipy", "scikit-learn", "altair", "vl-convert-python")
_SOURCES = ("ratings", "simulation", "wetbench_site")


def blinded(study: Study) -> list[Entry]:
    """Return the files of the blinded archive: nothing by source, safe to share at any time."""
    facts = design.of(study)
    files = [*study_files.entries(study, True), *_documents(study, True), _made_with(study, None)]
    files.append(entries.text("methods.txt", _METHODS, methods.written(study, facts, True)))
    return _whole(study, True, files, None)


def unblinded(study: Study, analysis: Analysis) -> list[Entry]:
    """Return all files, with the stored analysis. Raises SealedError before the study is unblinded."""
    document, ratings_table = analysis.document, judged.table(study)
    # with a single rater there are no pairs that could share items
    shared_items = (
        Spread.of(Counter(judged.common_items(ratings_table).tolist())) if len(ratings_table.raters) > 1 else None
    )
    files = [
        *study_files.entries(study, False),
        *study_files.unblinded(study),
        *_documents(study, False),
        _made_with(study, analysis),
        *results_files.of(document, ratings_table, find_conditions(study), find_names(study)),
    ]
    methods_text = methods.written(study, design.of(study), False, document, shared_items)
    files.append(entries.text("methods.txt", _METHODS, methods_text))
    return _whole(study, False, files, document)


_METHODS = "The methods section in sentences, with the actual numbers of the study."


def _whole(study: Study, blinded: bool, own: Sequence[Entry], made: Mapping[str, Any] | None) -> list[Entry]:
    codebook = entries.table(
        "codebook.csv",
        "The meaning of every column of every table.",
        fields.CODEBOOK,
        # the codebook describes itself too; the lambda runs when the file is written, after the assignment
        lambda: _codebook([*own, codebook]),
        key=("file", "column"),
    )
    sorted_files = sorted([*own, codebook], key=lambda entry: entry.name)
    readme_file = entries.text("README.md", "This file.", readme.written(study, blinded, sorted_files, made))
    return [readme_file, *sorted_files]


def _codebook(every: Sequence[Entry]) -> list[tuple[str, str, str, str]]:
    tables = sorted((entry for entry in every if entry.fields), key=lambda entry: entry.name)
    return [(entry.name, field.name, field.kind, field.meaning) for entry in tables for field in entry.fields]


def _documents(study: Study, blinded: bool) -> list[Entry]:
    """Return the study protocol and the last blinding audit."""
    description = "The last blinding audit; null if there was none."
    if blinded:
        description += " Measurements and the nature of leaks are withheld until unblinding."
    return [
        entries.text("protocol.json", "The study protocol with which the study was opened.", _json(study.protocol)),
        entries.text("certificate.json", description, _json(design.certificate(study, blinded))),
    ]


def _made_with(study: Study, analysis: Analysis | None) -> Entry:
    analysis_entry = {"analysis": _analysis(analysis)} if analysis else {}
    versions = {
        "wetbench": {"source_sha256": source_sha256()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "study": {"seed": study.seed, "guide_version": study.guide_version},
        **analysis_entry,
    }
    return entries.text("made_with.json", "Versions and seeds with which the archive was created.", _json(versions))


def _analysis(made: Analysis) -> dict[str, Any]:
    names = ("version", "seed", "resamples", "data_sha256", "sha256")
    return {name: getattr(made, name) for name in names}


@cache
def source_sha256() -> str:
    """Return one digest over the names and contents of the Python files of WetBench. It identifies the version."""
    # hashes a few hundred files, hence the cache; the files do not change while the process runs
    digest = sha256()
    root = Path(settings.BASE_DIR)
    # Sorted, since the order of rglob depends on the file system. Not the commit: an installation may have no
    # git directory, or local changes.
    for path in sorted(path for name in _SOURCES for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _json(data: Any) -> str:
    # sorted keys: the same study must give the same bytes
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
