"""The archive's README: which study it contains, what to keep in mind, and the content of each file."""

from collections.abc import Sequence
from typing import Any

from ratings.exchange.archive import descriptor
from ratings.exchange.archive.entries import Entry
from ratings.models import Study


def written(study: Study, blinded: bool, all_of_it: Sequence[Entry], made: Any) -> str:
    """Return README.md. `document` is the analysis document, None in the blinded variant."""
    parts = [f"# {_line(study.name)}", _line(study.question), _state(study, blinded)]
    if made:
        parts += filter(None, (made["composition"][name]["said"] for name in ("simulated", "imported")))
        if not made["interim"]["met"]:
            parts.append(
                f"Interim results: the study was unblinded before its stop rule was met. {made['interim']['said']}"
            )
    parts += [
        _SHORT,
        "## Files",
        "\n".join(_listed(all_of_it)),
        "## Reading the files",
        *_HOW,
        _BACK.format(notes=_NO_NOTES if blinded else "notes are restored as well"),
    ]
    if made:
        parts.append(_REPEAT)
    return "\n\n".join(parts) + "\n"


def _state(study: Study, blinded: bool) -> str:
    if blinded:
        return f"Study `{study.slug}`, {study.status}. This is the blinded variant: sealed columns are empty, and nothing is reported by source."
    return f"Study `{study.slug}`, unblinded. This archive contains the complete study, including the sources of its items."


_SHORT = "`methods.txt` describes how the study was designed and carried out; `codebook.csv` explains every column."
_HOW = (
    "`sha256sum -c SHA256SUMS` verifies every file. `datapackage.json` describes the files in the Data Package standard 2.0. "
    "Exports are reproducible: the same study and version of WetBench give the same bytes.",
    "Tables are CSV in UTF-8 with a header; every cell is quoted. Text that a spreadsheet could read as a formula starts with an extra "
    "apostrophe; `manage.py import_ratings` removes it, and other programs should too. Flags are 1 and 0, an empty cell means none or "
    "unknown, times are UTC.",
)
_BACK = (
    "`manage.py import_ratings` imports `ratings.csv` into another copy of the study with the same item codes. For ratings that count, it "
    "restores verdicts, confidences, times and which raters are simulated; {notes}. Raters get new codes. Display data, "
    "marked rows and earlier versions are not restored."
)
_NO_NOTES = "this variant has no notes, and imported ratings are left out because it does not name their items"
_REPEAT = (
    "`manage.py agreement ratings.csv` reproduces the numbers of `results.json` from the ratings alone. Files in "
    "`imrmc/` follow the format of the FDA's program iMRMC. WetBench's own reader read them back; they were not "
    "run in that program. Tables in `latex/` need only `\\usepackage{booktabs}`."
)


def _listed(all_of_it: Sequence[Entry]) -> list[str]:
    lines = [f"- `{entry.name}`: {_line(entry.says)}" for entry in all_of_it]
    return [
        *lines,
        f"- `{descriptor.NAME}`: names, types, sizes and digests of the files in machine-readable form.",
        f"- `{descriptor.SUMS}`: SHA-256 of every file except itself.",
    ]


def _line(text: str) -> str:
    """Return text of unknown origin on one line, escaped so that Markdown displays it literally."""
    return "".join(
        f"\\{character}" if character in "\\`*_[]<>#|&" else character for character in " ".join(text.split())
    )
