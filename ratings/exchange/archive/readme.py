"""The archive's first page: what it is of, what must be minded, what each file holds."""

from collections.abc import Sequence
from typing import Any

from ratings.exchange.archive import descriptor
from ratings.exchange.archive.entries import Entry
from ratings.models import Study


def written(study: Study, blinded: bool, all_of_it: Sequence[Entry], made: Any) -> str:
    """README.md. `made` is the analysis document, None in the blinded variant."""
    parts = [f"# {_line(study.name)}", _line(study.question), _state(study, blinded)]
    if made:
        parts += filter(None, (made["composition"][name]["said"] for name in ("simulated", "imported")))
        if not made["interim"]["met"]:
            parts.append(f"Interim: the study was unblinded before its stop rule was met. {made['interim']['said']}")
    parts += [
        _SHORT,
        "## Files",
        "\n".join(_listed(all_of_it)),
        "## Reading them",
        *_HOW,
        _BACK.format(notes=_NO_NOTES if blinded else "so do notes"),
    ]
    if made:
        parts.append(_REPEAT)
    return "\n\n".join(parts) + "\n"


def _state(study: Study, blinded: bool) -> str:
    if blinded:
        return f"Study `{study.slug}`, {study.status}. The blinded variant: sealed columns are empty, nothing is by source."
    return f"Study `{study.slug}`, unblinded. Everything the study holds, with where its items came from."


_SHORT = "How the study was made and carried out is in `methods.txt`, what every column means in `codebook.csv`."
_HOW = (
    "`sha256sum -c SHA256SUMS` checks every file. `datapackage.json` describes them by the Data Package standard 2.0. "
    "The same study exported again with the same version of WetBench gives the same bytes.",
    "Tables are CSV in UTF-8 with a header, every cell quoted. A text that a spreadsheet would take for a formula has one apostrophe before "
    "it; `manage.py import_ratings` takes it off, and other readers should. Flags are 1 and 0, an empty cell is none or "
    "not known, times are UTC.",
)
_BACK = (
    "`manage.py import_ratings` takes `ratings.csv` into another copy of the study with the same codes of items. Verdicts, "
    "confidences, times and who is simulated come back for ratings that count; {notes}. Raters get new codes; screens, "
    "ticks and earlier versions do not come back."
)
_NO_NOTES = "notes are not in this variant, and imported ratings, which name no item in it, are left out"
_REPEAT = (
    "`manage.py agreement ratings.csv` prints the numbers of `results.json` again from the ratings alone. Files in "
    "`imrmc/` are made after the format of FDA's program iMRMC and were read back by WetBench's own reader; they were not "
    "run in that program. Tables in `latex/` need `\\usepackage{booktabs}` and nothing else."
)


def _listed(all_of_it: Sequence[Entry]) -> list[str]:
    described = [f"- `{entry.name}`: {_line(entry.says)}" for entry in all_of_it]
    return [
        *described,
        f"- `{descriptor.NAME}`: names, types, sizes and digests of the files, for programs.",
        f"- `{descriptor.SUMS}`: SHA-256 of every file but itself.",
    ]


def _line(text: str) -> str:
    """Text of unknown origin on one line, as Markdown shows it and does not read it."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|&" else sign for sign in " ".join(text.split()))
