"""python manage.py prompts list | show NAME [FILE] | import DIR [--name NAME] | diff A B | render ROLE --experiment SLUG --step N

Or: render code --task SLUG --mask KEY.
"""

from difflib import unified_diff
from pathlib import Path
from typing import Any, get_args

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from simulation.casts import prompt_previews, prompt_store
from simulation.casts.code_prompt_previews import CODE_ROLE, CodePreviewRequest, build_code_preview
from simulation.lab.errors import LabError
from simulation.llm import prompt_sets
from simulation.llm.coding.notes import SCAFFOLDS
from simulation.llm.prompt_files import ALL_FILES, BUILT_IN, BUILT_IN_CODE, BUILT_IN_RATING, find_family
from simulation.llm.prompt_sets import PromptTexts
from simulation.management.command_options import tolerate_closed_pipe
from simulation.management.task_options import ALL, read_tasks
from simulation.models import Experiment, PromptSet
from simulation.providers import Prompt
from simulation.replication.values import CodeArm, DocsArm, PaperArm
from simulation.runs import benches
from wetbench_site.safe_output import SafeCommand

_SET_HELP = "a set: NAME for its newest version, or NAME@HASH with 6 or more digits of the hash"


class Command(SafeCommand):
    help = "List prompt sets, show one, import a folder as a new one, compare two, or print a filled prompt with its tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="do", required=True, metavar="list|show|import|diff|render")
        actions.add_parser("list", help="every version of every set")
        show = actions.add_parser("show", help="one set, or one of its files exactly as stored")
        show.add_argument("name", help=_SET_HELP)
        show.add_argument("file", nargs="?", choices=sorted(ALL_FILES), metavar="FILE", help="one of its files")
        store = actions.add_parser("import", help="store a folder as a prompt set")
        folder_help = "a folder with the same file names as the built-in set"
        store.add_argument("folder", type=Path, metavar="DIR", help=folder_help)
        store.add_argument("--name", default="", help="name of the set; by default the name of the folder")
        diff = actions.add_parser("diff", help="differences between two sets, file by file")
        diff.add_argument("one", metavar="A", help=_SET_HELP + "; or a folder, written with a slash")
        diff.add_argument("other", metavar="B", help="the same")
        render = actions.add_parser(
            "render", help="the prompt of a role at a step of a reference protocol, or for a mask, with its tokens"
        )
        render.add_argument("role", metavar="ROLE", help=", ".join((*prompt_previews.ROLES, CODE_ROLE)))
        render.add_argument("--experiment", metavar="SLUG", help="of every role but code")
        render.add_argument("--step", type=int, metavar="N", help="step of its reference protocol, from 1")
        render.add_argument("--seed", type=int, default=1, help="seed of the offline simulation of the steps before")
        render.add_argument("--scaffold", choices=SCAFFOLDS, default=SCAFFOLDS[0], help="of the agent")
        render.add_argument("--task", metavar="SLUG", help="replication task, of the role code")
        render.add_argument("--mask", metavar="KEY", help="mask of the task, such as u3-004")
        for name, arm in (("paper", PaperArm), ("code", CodeArm), ("docs", DocsArm)):
            default = CodePreviewRequest.__dataclass_fields__[name].default
            render.add_argument(f"--{name}", choices=get_args(arm), default=default, help="condition of the run")
        render.add_argument("--prompts", default="", metavar="NAME", help=_SET_HELP)
        render.add_argument("--counts", action="store_true", help="print only the table of tokens")

    def handle(self, *args: Any, **options: Any) -> None:
        named = {
            "list": self._list_sets,
            "show": self._show_set,
            "import": self._import_set,
            "diff": self._compare_sets,
            "render": self._render_prompt,
        }
        try:
            with tolerate_closed_pipe(self.stdout):
                named[options["do"]](options)
        except LabError as error:
            raise CommandError(str(error), returncode=2) from error

    def _list_sets(self, options: dict[str, Any]) -> None:
        newest = {row.pk for row in prompt_store.list_current()}
        for row in PromptSet.objects.defer("files"):
            age = "newest" if row.pk in newest else "older"
            self.stdout.write(f"{row.name}@{row.sha256[:12]}  {row.created_at:%Y-%m-%d %H:%M}  {age}")

    def _show_set(self, options: dict[str, Any]) -> None:
        row = prompt_store.get_prompt_set(options["name"])
        prompts = prompt_store.load_texts(row.sha256)
        if options["file"]:
            if options["file"] not in prompts.files:
                raise prompt_store.NoSuchPromptSet(f"{row.name} has no file {options['file']}")
            self.stdout.write_data(prompts.files[options["file"]])
            return
        self.stdout.write(f"{row.name}  {row.sha256}")
        for file, text in prompts.files.items():
            placeholders = ", ".join(f"{{{name}}}" for name in ALL_FILES[file].all_names)
            filled_in = f"  (filled in: {placeholders})" if placeholders else ""
            self.stdout.write(f"\n===== {file}{filled_in}\n{text.rstrip()}")

    def _import_set(self, options: dict[str, Any]) -> None:
        folder: Path = options["folder"]
        row, imported = prompt_store.import_folder(folder, options["name"] or folder.resolve().name)
        newest = row.pk == prompt_store.get_prompt_set(row.name).pk
        set_name = row.name if newest else f"{row.name}@{row.sha256[:12]}"
        self.stdout.write(f"{row.name}@{row.sha256[:12]} is stored: choose prompt set {set_name} for a run")
        if row.name != imported.texts.name:
            self.stdout.write(f"The same texts are stored already, as {row.name}: nothing new was stored.")
        elif not newest:
            self.stdout.write(f"It was stored already; {row.name} without a hash refers to a newer version.")
        built_in = find_family(imported.texts.files)
        for files, text in (
            (imported.borrowed, f"Not in the folder, taken from {built_in}"),
            (imported.unescaped, "Written for str.format, so doubled braces were changed to single ones"),
            (imported.doubled, "Doubled braces were kept, because there are single ones as well"),
        ):
            if files:
                self.stdout.write(f"{text}: {', '.join(files)}")

    def _compare_sets(self, options: dict[str, Any]) -> None:
        first, second = (_load_texts(options[side]) for side in ("one", "other"))
        lines: list[str] = []
        for file in ALL_FILES:
            sides = (first.files.get(file, "").splitlines(), second.files.get(file, "").splitlines())
            lines += unified_diff(*sides, f"{options['one']} {file}", f"{options['other']} {file}", lineterm="")
        self.stdout.write("\n".join(lines) if lines else "The sets are identical.")

    def _render_prompt(self, options: dict[str, Any]) -> None:
        is_code = options["role"] == CODE_ROLE
        needed = ("task", "mask") if is_code else ("experiment", "step")
        if missing := [f"--{name}" for name in needed if options[name] is None]:
            raise LabError(f"The role {options['role']} needs {' and '.join(missing)}")
        if is_code:
            self._render_code_prompt(options)
            return
        is_rating = options["role"] == prompt_previews.RATER
        get_set = prompt_store.get_rating_set if is_rating else prompt_store.get_simulation_set
        row = get_set(options["prompts"] or (BUILT_IN_RATING if is_rating else BUILT_IN))
        request = prompt_previews.PreviewRequest(
            options["role"],
            benches.get_specification(_get_experiment(options["experiment"])),
            benches.get_current_catalogue(),
            prompt_store.load_texts(row.sha256),
            options["step"],
            options["seed"],
            options["scaffold"],
        )
        title = f"{options['role']}, step {options['step']} of {options['experiment']}, {row}"
        self._print_prompt(prompt_previews.build_preview(request), title, options["counts"])

    def _render_code_prompt(self, options: dict[str, Any]) -> None:
        row = prompt_store.get_code_set(options["prompts"] or BUILT_IN_CODE)
        if options["task"] == ALL:
            raise LabError("--task: is 'all'; allowed: the name of one task")
        [task] = read_tasks(settings.FIXTURES_DIR / "replication", [options["task"]])
        request = CodePreviewRequest(
            task,
            options["mask"],
            prompt_store.load_texts(row.sha256),
            options["scaffold"],
            options["paper"],
            options["code"],
            options["docs"],
        )
        title = f"{options['role']}, first prompt of {options['task']} {options['mask']}, {row}"
        self._print_prompt(build_code_preview(request), title, options["counts"])

    def _print_prompt(self, prompt: Prompt, title: str, only_counts: bool) -> None:
        parts = list(prompt_previews.split_prompt(prompt))
        if not only_counts:
            for part in parts:
                self.stdout.write(f"===== {part.name} ({part.kind})\n{part.text.strip()}\n\n")
        self.stdout.write(title)
        self.stdout.write(f"{'tokens':>7}  {'kind':7}  part")
        for part in parts:
            self.stdout.write(f"{part.tokens:7d}  {part.kind:7}  {part.name}")
        for kind in (prompt_previews.STATIC, prompt_previews.DYNAMIC):
            self.stdout.write(f"{sum(part.tokens for part in parts if part.kind == kind):7d}  {kind:7}  all parts")
        self.stdout.write(
            f"Tokens are estimated: UTF-8 bytes divided by {prompt_previews.BYTES_PER_TOKEN}, rounded up. Every provider counts with a tokenizer of its own."
        )


def _get_experiment(slug: str) -> Experiment:
    experiment = Experiment.objects.filter(slug=slug).first()
    if experiment is None:
        slugs = Experiment.objects.order_by("slug").values_list("slug", flat=True)
        raise LabError(
            f"There is no experiment {slug!r}; allowed: {', '.join(slugs) or 'none, run manage.py load_lab first'}"
        )
    return experiment


def _load_texts(name_or_folder: str) -> PromptTexts:
    if "/" in name_or_folder:
        return prompt_sets.load_folder(Path(name_or_folder), "folder").texts
    return prompt_store.load_texts(prompt_store.get_prompt_set(name_or_folder).sha256)
