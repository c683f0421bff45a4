"""python manage.py prompts list | show NAME [FILE] | import DIR [--name NAME] | diff A B"""

import os
import sys
from argparse import ArgumentParser
from difflib import unified_diff
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from simulation.casts import prompting
from simulation.lab.errors import LabError
from simulation.llm.prompts import prompt_sets
from simulation.llm.prompts.prompt_files import EVERY
from simulation.llm.prompts.prompt_sets import PromptTexts
from simulation.models import PromptSet

_SET = "a set: NAME for its newest version, or NAME@HASH with 6 or more digits of the hash"


class Command(BaseCommand):
    help = "The prompt sets: list them, show one, import a folder as a new one, compare two."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="do", required=True, metavar="list|show|import|diff")
        actions.add_parser("list", help="every version of every set")
        _show(actions.add_parser("show", help="one set, or one file of it exactly as it is"))
        _import(actions.add_parser("import", help="store a folder as a prompt set"))
        _diff(actions.add_parser("diff", help="what differs between two sets, file by file"))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['do']}")(options)
            self.stdout.flush()
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error
        except BrokenPipeError:
            # Whoever read has seen enough; what is still buffered goes nowhere, without a complaint at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _list(self, options: dict[str, Any]) -> None:
        newest = {row.pk for row in prompting.current()}
        for row in PromptSet.objects.defer("files"):
            mark = "newest" if row.pk in newest else "older"
            self.stdout.write(f"{row.name}@{row.sha256[:12]}  {row.created_at:%Y-%m-%d %H:%M}  {mark}")

    def _show(self, options: dict[str, Any]) -> None:
        row = prompting.stored(options["name"])
        found = prompting.texts(row.sha256)
        if options["file"]:
            if options["file"] not in found.files:
                raise prompting.NoSuchPromptSet(f"{row.name} has no file {options['file']}")
            self.stdout.write(found.files[options["file"]], ending="")
            return
        self.stdout.write(f"{row.name}  {row.sha256}")
        for file, text in found.files.items():
            told = ", ".join(f"{{{each}}}" for each in EVERY[file].all)
            self.stdout.write(f"\n===== {file}" + (f"  (filled in: {told})" if told else "") + f"\n{text.rstrip()}")

    def _import(self, options: dict[str, Any]) -> None:
        folder: Path = options["folder"]
        row, read = prompting.import_folder(folder, options["name"] or folder.resolve().name)
        newest = row.pk == prompting.stored(row.name).pk
        named = row.name if newest else f"{row.name}@{row.sha256[:12]}"
        self.stdout.write(f"{row.name}@{row.sha256[:12]} is stored: choose prompt set {named} for a run")
        if row.name != read.texts.name:
            self.stdout.write(f"The same texts were there already, as {row.name}: nothing new was stored.")
        elif not newest:
            self.stdout.write(f"It was there already; {row.name} without a hash means a newer version.")
        ours = prompting.BUILT_IN_RATING if prompt_sets.is_rating(read.texts.files) else prompting.BUILT_IN
        if read.borrowed:
            self.stdout.write(f"Not in the folder, taken from {ours}: {', '.join(read.borrowed)}")
        if read.unescaped:
            self.stdout.write(f"Templates of str.format, their doubled braces made single: {', '.join(read.unescaped)}")
        if read.doubled:
            self.stdout.write(f"Doubled braces stay, for single ones stand there as well: {', '.join(read.doubled)}")

    def _diff(self, options: dict[str, Any]) -> None:
        one, other = (_texts(options[side]) for side in ("one", "other"))
        lines = [
            line
            for file in EVERY
            if file in one.files or file in other.files
            for line in _compared(file, options, one, other)
        ]
        self.stdout.write("\n".join(lines) if lines else "They say the same.")


def _show(parser: ArgumentParser) -> None:
    parser.add_argument("name", help=_SET)
    parser.add_argument("file", nargs="?", choices=sorted(EVERY), metavar="FILE", help="one of its files")


def _import(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder with files named as those of the built-in set"
    )
    parser.add_argument("--name", default="", help="what the set is called; without it, as the folder")


def _diff(parser: ArgumentParser) -> None:
    parser.add_argument("one", metavar="A", help=_SET + "; or a folder, written with a slash")
    parser.add_argument("other", metavar="B", help="the same")


def _texts(written: str) -> PromptTexts:
    if "/" in written:
        return prompt_sets.read_folder(Path(written), "folder").texts
    return prompting.texts(prompting.stored(written).sha256)


def _compared(file: str, options: dict[str, Any], one: PromptTexts, other: PromptTexts) -> list[str]:
    sides = (one.files.get(file, "").splitlines(), other.files.get(file, "").splitlines())
    return list(unified_diff(*sides, f"{options['one']} {file}", f"{options['other']} {file}", lineterm=""))
