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

from ratings.exchange.archive import (
    archive_files,
    fields,
    judged_ratings,
    methods,
    readme,
    results_files,
    study_facts,
    study_files,
)
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.exchange.archive.study_facts import CountRange
from ratings.models import Analysis, Study
from ratings.studies.crossover import load_condition_names, load_conditions_by_code

# the libraries whose version can change a number or a chart
RECORDED_LIBRARIES = ("Django", "numpy", "scipy", "scikit-learn", "altair", "vl-convert-python")
_SOURCE_FOLDERS = ("ratings", "simulation", "wetbench_site")


def list_blinded_files(study: Study) -> list[ArchiveFile]:
    """Return the files of the blinded archive. They contain nothing by source and may be shared at any time."""
    facts = study_facts.collect_study_facts(study)
    files = [
        *study_files.list_common_files(study, True),
        *_create_document_files(study, True),
        _create_versions_file(study, None),
    ]
    files.append(
        archive_files.create_text_file("methods.txt", _METHODS_DESCRIPTION, methods.format_methods(study, facts, True))
    )
    return _complete_files(study, True, files, None)


def list_unblinded_files(study: Study, analysis: Analysis) -> list[ArchiveFile]:
    """Return the files of the unblinded archive, with the stored analysis. Raises SealedError before unblinding."""
    document, ratings_table = analysis.document, judged_ratings.build_judged_table(study)
    # with a single rater there are no pairs that could share items
    shared_items = (
        CountRange.from_frequencies(Counter(judged_ratings.count_shared_items(ratings_table).tolist()))
        if len(ratings_table.raters) > 1
        else None
    )
    files = [
        *study_files.list_common_files(study, False),
        *study_files.list_unblinded_files(study),
        *_create_document_files(study, False),
        _create_versions_file(study, analysis),
        *results_files.iter_results_files(
            document, ratings_table, load_conditions_by_code(study), load_condition_names(study)
        ),
    ]
    methods_text = methods.format_methods(study, study_facts.collect_study_facts(study), False, document, shared_items)
    files.append(archive_files.create_text_file("methods.txt", _METHODS_DESCRIPTION, methods_text))
    return _complete_files(study, False, files, document)


_METHODS_DESCRIPTION = "The methods section in sentences, with the actual numbers of the study."


def _complete_files(
    study: Study, blinded: bool, files: Sequence[ArchiveFile], document: Mapping[str, Any] | None
) -> list[ArchiveFile]:
    codebook = archive_files.create_table_file(
        "codebook.csv",
        "The meaning of every column of every table.",
        fields.CODEBOOK_FIELDS,
        # the codebook describes itself too: the lambda runs when the file is written, after `codebook` is assigned
        lambda: _list_codebook_rows([*files, codebook]),
        key=("file", "column"),
    )
    sorted_files = sorted([*files, codebook], key=lambda entry: entry.name)
    readme_file = archive_files.create_text_file(
        "README.md", "This file.", readme.format_readme(study, blinded, sorted_files, document)
    )
    return [readme_file, *sorted_files]


def _list_codebook_rows(files: Sequence[ArchiveFile]) -> list[tuple[str, str, str, str]]:
    tables = sorted((entry for entry in files if entry.fields), key=lambda entry: entry.name)
    return [(entry.name, field.name, field.kind, field.meaning) for entry in tables for field in entry.fields]


def _create_document_files(study: Study, blinded: bool) -> list[ArchiveFile]:
    """Return the files with the study protocol and with the certificate of the last blinding audit."""
    description = "The last blinding audit; null if there was none."
    if blinded:
        description += " Measurements and the nature of leaks are withheld until unblinding."
    return [
        archive_files.create_text_file(
            "protocol.json", "The study protocol with which the study was opened.", _format_json(study.protocol)
        ),
        archive_files.create_text_file(
            "certificate.json", description, _format_json(study_facts.get_blinding_certificate(study, blinded))
        ),
    ]


def _create_versions_file(study: Study, analysis: Analysis | None) -> ArchiveFile:
    analysis_entry = {"analysis": _describe_analysis(analysis)} if analysis else {}
    versions = {
        "wetbench": {"source_sha256": compute_source_sha256()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in RECORDED_LIBRARIES},
        "study": {"seed": study.seed, "guide_version": study.guide_version},
        **analysis_entry,
    }
    return archive_files.create_text_file(
        "made_with.json", "Versions and seeds with which the archive was created.", _format_json(versions)
    )


def _describe_analysis(analysis: Analysis) -> dict[str, Any]:
    names = ("version", "seed", "resamples", "data_sha256", "sha256")
    return {name: getattr(analysis, name) for name in names}


@cache
def compute_source_sha256() -> str:
    """Return one digest over the names and contents of the Python files of WetBench. It identifies the version."""
    # hashes a few hundred files, hence the cache; the files do not change while the process runs
    digest = sha256()
    root = Path(settings.BASE_DIR)
    # Sorted, since the order of rglob depends on the file system. The Git commit would not do:
    # an installation may have no git directory, or local changes.
    for path in sorted(path for name in _SOURCE_FOLDERS for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _format_json(data: Any) -> str:
    # sorted keys: the same study must give the same bytes
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
