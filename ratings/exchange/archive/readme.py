"""The archive's README: which study it contains, what to keep in mind, and the content of each file."""

from collections.abc import Sequence
from typing import Any

from ratings.exchange.archive import descriptor
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.models import Study


def format_readme(study: Study, blinded: bool, files: Sequence[ArchiveFile], document: Any) -> str:
    """Return README.md. `document` is the analysis document, None in the blinded variant."""
    parts = [
        f"# {_escape_markdown_line(study.name)}",
        _escape_markdown_line(study.question),
        _describe_state(study, blinded),
    ]
    if document:
        parts += filter(None, (document["composition"][name]["said"] for name in ("simulated", "imported")))
        if not document["interim"]["met"]:
            parts.append(
                f"Interim results: the study was unblinded before its stop rule was met. {document['interim']['said']}"
            )
    parts += [
        _OVERVIEW,
        "## Files",
        "\n".join(_list_files(files)),
        "## Reading the files",
        *_READING_NOTES,
        _IMPORT_NOTES.format(notes=_NO_NOTES if blinded else "notes are restored as well"),
    ]
    if document:
        parts.append(_REPRODUCTION_NOTES)
    return "\n\n".join(parts) + "\n"


def _describe_state(study: Study, blinded: bool) -> str:
    if blinded:
        return f"Study `{study.slug}`, {study.status}. This is the blinded variant: sealed columns are empty, and nothing is reported by source."
    return f"Study `{study.slug}`, unblinded. This archive contains the complete study, including the sources of its items."


_OVERVIEW = "`methods.txt` describes how the study was designed and carried out; `codebook.csv` explains every column."
_READING_NOTES = (
    "`sha256sum -c SHA256SUMS` verifies every file. `datapackage.json` describes the files in the Data Package standard 2.0. "
    "Exports are reproducible: the same study and version of WetBench give the same bytes.",
    "Tables are CSV in UTF-8 with a header; every cell is quoted. Text that a spreadsheet could read as a formula starts with an extra "
    "apostrophe; `manage.py import_ratings` removes it, and other programs should too. Flags are 1 and 0, an empty cell means none or "
    "unknown, times are UTC.",
)
_IMPORT_NOTES = (
    "`manage.py import_ratings` imports `ratings.csv` into another copy of the study with the same item codes. For ratings that count, it "
    "restores verdicts, confidences, times and which raters are simulated; {notes}. Raters get new codes. Display data, "
    "marked rows and earlier versions are not restored."
)
_NO_NOTES = "this variant has no notes, and imported ratings are left out because it does not name their items"
_REPRODUCTION_NOTES = (
    "`manage.py agreement ratings.csv` reproduces the numbers of `results.json` from the ratings alone. Files in "
    "`imrmc/` follow the format of the FDA's program iMRMC. WetBench's own reader read them back; they were not "
    "run in that program. Tables in `latex/` need only `\\usepackage{booktabs}`."
)


def _list_files(files: Sequence[ArchiveFile]) -> list[str]:
    lines = [f"- `{entry.name}`: {_escape_markdown_line(entry.description)}" for entry in files]
    return [
        *lines,
        f"- `{descriptor.DESCRIPTOR_NAME}`: names, types, sizes and digests of the files in machine-readable form.",
        f"- `{descriptor.CHECKSUMS_NAME}`: SHA-256 of every file except itself.",
    ]


def _escape_markdown_line(text: str) -> str:
    """Return text of unknown origin on one line, escaped so that Markdown displays it literally."""
    return "".join(
        f"\\{character}" if character in "\\`*_[]<>#|&" else character for character in " ".join(text.split())
    )
