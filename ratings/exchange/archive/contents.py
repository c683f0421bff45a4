"""The list of all files of an archive, in order of their names. Only workers and commands import this module: it draws charts."""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.conf import settings

from ratings.exchange.archive import archive_files, imrmc, study_facts, study_files, texts
from ratings.exchange.archive.archive_files import RESULT_KINDS, ArchiveFile, create_table_file, create_text_file
from ratings.exchange.archive.study_facts import CountRange
from ratings.exchange.exports import Field
from ratings.models import Analysis, Study
from ratings.results.analyses import rating_columns, store
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import TABLE_SPECS
from ratings.results.figures import render
from ratings.results.figures.file_metadata import build_svg_file
from ratings.results.figures.registry import FIGURES
from ratings.results.figures.render import render_for_print
from ratings.stats import rater_pairs
from ratings.stats.ratings_table import Ratings
from ratings.studies.designs import load_condition_names, load_conditions_by_code

Json = Mapping[str, Any]
# the libraries whose version can change a number or a chart
RECORDED_LIBRARIES = ("Django", "numpy", "scipy", "scikit-learn", "altair", "vl-convert-python")
_SOURCE_FOLDERS = ("ratings", "simulation", "wetbench_site")
# chart -> further tables that it is drawn from
_EXTRA_TABLES: Mapping[str, tuple[str, ...]] = {"violins": ("confidence",), "roc": ("detection",)}
_IMRMC_FORMAT = (
    "in the file format of the FDA's program iMRMC; read back by WetBench's own reader, not run in that program."
)


def list_blinded_files(study: Study) -> list[ArchiveFile]:
    """Return the files of the blinded archive. They contain nothing by source and may be shared at any time."""
    return _complete_files(study, True, study_files.list_common_files(study, True), None, None)


def list_unblinded_files(study: Study, analysis: Analysis) -> list[ArchiveFile]:
    """Return the files of the unblinded archive, with the stored analysis. Raises SealedError before unblinding."""
    judged = rating_columns.load_analysis_data(study, Filters()).table
    files = [
        *study_files.list_common_files(study, False),
        *study_files.list_unblinded_files(study),
        *iter_results_files(analysis.document, judged, load_conditions_by_code(study), load_condition_names(study)),
    ]
    return _complete_files(study, False, files, analysis, _count_shared_items(judged))


def _count_shared_items(judged: Ratings) -> CountRange | None:
    """Return the range of the number of items that two raters share; None for a single rater."""
    if len(judged.raters) < 2:
        return None
    pairs = rater_pairs.tabulate_pairs(judged)
    shared = Counter(pairs.shared_items.astype(int).tolist())
    shared[0] += pairs.disjoint_pairs
    return CountRange.from_frequencies(shared)


def _complete_files(
    study: Study, blinded: bool, files: list[ArchiveFile], analysis: Analysis | None, shared_items: CountRange | None
) -> list[ArchiveFile]:
    """Return the files with those that every archive has: protocol, certificate, versions, methods, codebook and README."""
    document = analysis.document if analysis else None
    certificate = "The last blinding audit; null if there was none."
    if blinded:
        certificate += " Measurements and the nature of leaks are withheld until unblinding."
    facts = study_facts.collect_study_facts(study)
    files = [
        *files,
        _create_json_file(
            "protocol.json", "The study protocol with which the study was opened.", study.protocol
        ),
        _create_json_file("certificate.json", certificate, study_facts.get_blinding_certificate(study, blinded)),
        _create_json_file(
            "made_with.json", "Versions and seeds with which the archive was created.", _list_versions(study, analysis)
        ),
        create_text_file(
            "methods.txt", "The methods section in sentences, with the actual numbers of the study.",
            texts.format_methods(study, facts, blinded, document, shared_items),
        ),
    ]  # fmt: skip
    codebook = create_table_file(
        "codebook.csv",
        "The meaning of every column of every table.",
        archive_files.CODEBOOK_FIELDS,
        # the codebook describes itself too: the lambda runs when the file is written, after `files` is complete
        lambda: [(entry.name, *field) for entry in files for field in entry.fields],
        key=("file", "column"),
    )
    files = sorted([*files, codebook], key=lambda entry: entry.name)
    return [create_text_file("README.md", "This file.", texts.format_readme(study, blinded, files, document)), *files]


def _list_versions(study: Study, analysis: Analysis | None) -> dict[str, Any]:
    names = ("version", "seed", "resamples", "data_sha256", "sha256")
    return {
        "wetbench": {"source_sha256": compute_source_sha256()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in RECORDED_LIBRARIES},
        "study": {"seed": study.seed, "guide_version": study.guide_version},
        **({"analysis": {name: getattr(analysis, name) for name in names}} if analysis else {}),
    }


@cache
def compute_source_sha256() -> str:
    """Return one digest over the names and contents of the Python files of WetBench. It identifies the version."""
    # hashes a few hundred files, hence the cache; the files do not change while the process runs
    digest = hashlib.sha256()
    root = Path(settings.BASE_DIR)
    # Sorted, since the order of rglob depends on the file system. The Git commit would not do:
    # an installation may have no git directory, or local changes.
    for path in sorted(path for name in _SOURCE_FOLDERS for path in (root / name).rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _create_json_file(name: str, description: str, data: Any) -> ArchiveFile:
    # sorted keys: the same study must give the same bytes
    return create_text_file(name, description, json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def iter_results_files(
    document: Json, judged: Ratings, conditions: Mapping[str, int], names: Sequence[str]
) -> Iterator[ArchiveFile]:
    """Yield all files with results by source, from the analysis `document` and from its ratings `judged`.

    `conditions` gives the condition, 1 or 2, of each item of a crossover study; it is empty for other studies. `names`
    are the names of the two conditions.
    """
    description = "The complete analysis as one JSON document, byte for byte the one behind the results page."
    yield ArchiveFile("results.json", description, lambda: [store.encode_document(document)])
    for name in TABLE_SPECS:
        yield _create_results_table(f"tables/{name}.csv", document["tables"][name])
    yield from _iter_figure_files(document)
    for index, source in enumerate(judged.error_sources, 1):
        yield ArchiveFile(
            f"imrmc/{index:02}-{_format_file_stem(source)}.imrmc",
            f"Signed ratings of {source} against all unperturbed items, {_IMRMC_FORMAT}",
            partial(imrmc.format_source_study, judged, source),
        )
    # the format needs cases with a signal
    if conditions and (judged.reference == 0).any():
        yield ArchiveFile(
            "imrmc/conditions.imrmc",
            f"Signed ratings of both conditions, each a modality (condition 1: {names[0]}; condition 2: {names[1]}), {_IMRMC_FORMAT}",
            partial(imrmc.format_condition_study, judged, conditions),
        )
    for name, content in texts.format_tables(document).items():
        title = document["tables"][texts.DOCUMENT_TABLES[name]]["title"]
        description = f"{title}, as a LaTeX table; needs only \\usepackage{{booktabs}}."
        yield create_text_file(f"latex/{name}.tex", description, content)


def _create_results_table(name: str, table: Json, prefix: str = "") -> ArchiveFile:
    columns = [Field(column["name"], RESULT_KINDS[column["kind"]], column["meaning"]) for column in table["columns"]]
    return create_table_file(name, f"{prefix}{table['title']}.", columns, lambda: table["rows"], exact=True)


def _iter_figure_files(document: Json) -> Iterator[ArchiveFile]:
    """Yield, for each chart with data, the same drawing as SVG, PDF and PNG, and the tables it is drawn from."""
    for figure in FIGURES.values():
        if "study" not in figure.kinds or not figure.has_data(document):
            continue
        path = f"figures/{figure.name}"
        draw = cache(partial(render_for_print, document, figure.name))  # drawn once for its three formats
        for ending, remark, convert in (
            ("svg", f". {figure.describe(document)}", build_svg_file),
            ("pdf", ", for print.", render.to_pdf),
            ("png", ", 300 ppi.", render.to_png),
        ):
            pieces = partial(lambda draw, convert: [convert(draw())], draw, convert)
            yield ArchiveFile(f"{path}.{ending}", f"{figure.title}{remark}", pieces)
        yield _create_results_table(f"{path}.csv", document["tables"][figure.table], "Data of the figure: ")
        for table in _EXTRA_TABLES.get(figure.name, ()):
            extra = document["tables"][table]
            yield _create_results_table(f"{path}_{table}.csv", extra, "Further data of the figure: ")


def _format_file_stem(source: str) -> str:
    """Return the source's name in a form that every system accepts in file names."""
    safe_name = "".join(one if one.isascii() and one.isalnum() else "-" for one in source.lower())
    # Two sources can get the same stem; the number before it in the file name distinguishes them. 60 characters are
    # short enough for every file system and still readable.
    return "-".join(filter(None, safe_name.split("-")))[:60] or "source"
