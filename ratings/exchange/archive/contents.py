"""Everything an archive holds, in the order of the names. Only workers and commands import this module: it draws."""

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

LIBRARIES = ("Django", "numpy", "scipy", "scikit-learn", "altair", "vl-convert-python")
_SOURCES = ("ratings", "simulation", "wetbench_site")


def blinded(study: Study) -> list[Entry]:
    """Nothing by source: safe to hand out at any time."""
    found = design.of(study)
    own = [*study_files.entries(study, True), *_documents(study, True), _made_with(study, None)]
    own.append(entries.text("methods.txt", _METHODS, methods.written(study, found, True)))
    return _whole(study, True, own, None)


def unblinded(study: Study, analysis: Analysis) -> list[Entry]:
    """All there is, with the stored analysis. SealedError before the study is unblinded."""
    made, table = analysis.document, judged.table(study)
    common = Spread.of(Counter(judged.common_items(table).tolist())) if len(table.raters) > 1 else None
    own = [
        *study_files.entries(study, False),
        *study_files.unblinded(study),
        *_documents(study, False),
        _made_with(study, analysis),
        *results_files.of(made, table, find_conditions(study), find_names(study)),
    ]
    written = methods.written(study, design.of(study), False, made, common)
    own.append(entries.text("methods.txt", _METHODS, written))
    return _whole(study, False, own, made)


_METHODS = "The methods in sentences, with the study's real numbers."


def _whole(study: Study, blinded: bool, own: Sequence[Entry], made: Mapping[str, Any] | None) -> list[Entry]:
    codebook = entries.table(
        "codebook.csv",
        "What every column of every table means.",
        fields.CODEBOOK,
        lambda: _codebook([*own, codebook]),
        key=("file", "column"),
    )
    every = sorted([*own, codebook], key=lambda entry: entry.name)
    first = entries.text("README.md", "This page.", readme.written(study, blinded, every, made))
    return [first, *every]


def _codebook(every: Sequence[Entry]) -> list[tuple[str, str, str, str]]:
    tables = sorted((entry for entry in every if entry.fields), key=lambda entry: entry.name)
    return [(entry.name, field.name, field.kind, field.meaning) for entry in tables for field in entry.fields]


def _documents(study: Study, blinded: bool) -> list[Entry]:
    """The study document, and the last blinding audit."""
    certificate = "The last blinding audit as it was found; null if there was none."
    if blinded:
        certificate += " What it measured, and what a leak is, is told after unblinding."
    return [
        entries.text("protocol.json", "The study document as it was opened.", _json(study.protocol)),
        entries.text("certificate.json", certificate, _json(design.certificate(study, blinded))),
    ]


def _made_with(study: Study, analysis: Analysis | None) -> Entry:
    computed = {"analysis": _analysis(analysis)} if analysis else {}
    found = {
        "wetbench": {"source_sha256": source_sha256()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "study": {"seed": study.seed, "guide_version": study.guide_version},
        **computed,
    }
    return entries.text("made_with.json", "Versions and seeds: what the archive was made with.", _json(found))


def _analysis(made: Analysis) -> dict[str, Any]:
    names = ("version", "seed", "resamples", "data_sha256", "sha256")
    return {name: getattr(made, name) for name in names}


@cache
def source_sha256() -> str:
    """Tells versions of WetBench apart: of the names and contents of its Python files, in order."""
    digest = sha256()
    root = Path(settings.BASE_DIR)
    for path in sorted(path for name in _SOURCES for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
