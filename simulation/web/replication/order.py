"""The form that orders code episodes: what it would create at which maximum cost, and why it cannot."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import redirect, render

from simulation.calls import run_usage
from simulation.casts import code_cast_availability, prompt_store
from simulation.casts.code_cast_availability import CodeCastOption
from simulation.code_runs import conditions, creation, masks, tasks
from simulation.lab.errors import LabError
from simulation.llm.prompt_files import BUILT_IN_CODE
from simulation.models import Mask, ReplicationTask, Run
from simulation.replication.tasks.mask_draws import MODES, MaskDrawError, draw_masks
from simulation.runs import create
from simulation.web.access import StaffRequest, staff_form
from simulation.web.cast_choices import CastGroup, UnavailableCasts, group_unavailable
from simulation.web.replication.episode_rows import is_rule_based
from simulation.web.run_forms import SELECT_BUTTON, BudgetFields, StartForm

_DEFAULTS = conditions.Conditions()
_MAX_N, _MAX_PER_N, _MAX_ATTEMPTS, _MAX_KEYS = 100, 500, 100, 50
_MODE_TEXTS = {
    "uniform": "uniform: any functions",
    "nested": "nested: each larger mask contains the smaller one",
    "connected": "connected: functions that call one another",
    "scattered": "scattered: functions of different call paths",
}
_LABELS = {"docs": "Docstrings", "profile": "Size of the experiments"}
_HELP = {
    "paper": "What agents see of the paper. oracle: only the passages that describe the hidden functions.",
    "code": "What prompts of language models show of the code. By default, the fixed pipeline gets the nearest functions, and agents with tools nothing.",
    "docs": "Those of hidden functions: kept, or only the signature.",
    "profile": "quick: fewer repetitions, where a task has this profile.",
}


def list_code_prompt_sets() -> list[tuple[str, str]]:
    rows = prompt_store.list_current(BUILT_IN_CODE)
    return [(f"{row.name}@{row.sha256[:12]}", f"{row.name} ({row.sha256[:12]})") for row in rows]


def parse_numbers(text: str) -> list[int]:
    """Return the numbers of a list such as "1, 2, 4" or "0-8". Raise ValidationError for anything else."""
    numbers: set[int] = set()
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit() and len(first + last) < 8):
            raise forms.ValidationError(f"{part!r} is no number and no range such as 0-8.")
        if int(last) > _MAX_N or int(first) > int(last):
            raise forms.ValidationError(f"{part!r} is no range of numbers up to {_MAX_N}.")
        numbers.update(range(int(first), int(last) + 1))
    return sorted(numbers)


def parse_keys(text: str) -> list[str]:
    """Return the keys of masks in a list such as "u2-001, u3-004". Raise ValidationError if there are too many."""
    keys = text.replace(",", " ").split()
    if len(keys) > _MAX_KEYS:
        raise forms.ValidationError(f"These are {len(keys)} keys, and one form can order {_MAX_KEYS}.")
    return keys


def _make_condition_field(name: str) -> forms.ChoiceField:
    choices = [(value, value) for value in conditions.CHOICES[name]]
    return forms.ChoiceField(
        label=_LABELS.get(name), choices=choices, initial=getattr(_DEFAULTS, name), help_text=_HELP[name]
    )


class CodeRunForm(StartForm, BudgetFields):
    """A run of code episodes: each mask of the chosen tasks with this many further replicates."""

    tasks = forms.ModelMultipleChoiceField(
        ReplicationTask.objects.defer("data"),
        to_field_name="slug",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one task."},
    )
    ns = forms.CharField(
        label="Numbers of hidden functions",
        max_length=60,
        initial="1",
        help_text="As in 1, or 1, 2, 4, or 0-8. With 0 nothing is hidden.",
    )
    per_n = forms.IntegerField(
        label="Masks of each task and number",
        min_value=1,
        max_value=_MAX_PER_N,
        initial=1,
        help_text="Drawn with a fixed seed, so that casts are compared on the same masks.",
    )
    mode = forms.ChoiceField(
        label="How masks are drawn", choices=[(name, _MODE_TEXTS[name]) for name in MODES], initial="uniform"
    )
    keys = forms.CharField(
        label="Keys of masks",
        max_length=1000,
        required=False,
        help_text="As in u2-001, u3-004: exactly these masks of each chosen task. The numbers above are then ignored.",
    )
    cast = forms.ChoiceField(
        choices=lambda: [(name, name) for name in code_cast_availability.list_names()],
        widget=forms.RadioSelect,
        initial="offline-oracle-lapses",
    )
    attempts = forms.IntegerField(
        label="Attempts",
        min_value=1,
        max_value=_MAX_ATTEMPTS,
        initial=1,
        help_text="Further replicates of each mask, numbered consecutively.",
    )
    seed = forms.IntegerField(
        min_value=0,
        max_value=create.MAX_SEED,
        required=False,
        help_text="Runs of rules with the same seed are reproducible. Leave blank for a random seed.",
    )
    prompt_set = forms.ChoiceField(
        choices=list_code_prompt_sets, required=False, label="Prompts", help_text="Used by language models only."
    )
    paper = _make_condition_field("paper")
    code = forms.ChoiceField(
        choices=[("", "default"), *((value, value) for value in conditions.CHOICES["code"])],
        required=False,
        help_text=_HELP["code"],
    )
    docs = _make_condition_field("docs")
    profile = _make_condition_field("profile")
    steps = forms.IntegerField(min_value=1, max_value=1000, initial=_DEFAULTS.steps, label="Steps of an episode")
    seconds = forms.FloatField(
        min_value=1, max_value=86_400, initial=int(_DEFAULTS.seconds), label="Seconds of sandboxes of an episode"
    )
    cost = forms.FloatField(
        min_value=0.01,
        max_value=1000,
        required=False,
        initial=_DEFAULTS.cost,
        label="US dollars of an episode",
        help_text="Used by language models only. Leave blank for no limit.",
    )

    def clean_ns(self) -> list[int]:
        """Return the numbers of hidden functions. Raises ValidationError."""
        return parse_numbers(self.cleaned_data["ns"])

    def clean_keys(self) -> list[str]:
        """Return the keys of masks. Raises ValidationError."""
        return parse_keys(self.cleaned_data["keys"])

    def clean(self) -> dict[str, Any]:
        """Add an error that names the key for each given mask that does not exist, is given twice, or is not validated."""
        cleaned = super().clean() or {}
        keys: list[str] = cleaned.get("keys") or []  # an error removes them
        for row in cleaned.get("tasks") or () if keys else ():
            try:
                creation.check_masks_usable(masks.store_masks(row, masks.find_masks(row, keys)), validate=False)
            except LabError as error:
                self.add_error("keys", f"{error}.")
        return cleaned

    def clean_cast(self) -> str:
        """Return the cast's name. Raise ValidationError, which states what is missing, if the cast is not available."""
        name = str(self.cleaned_data["cast"])
        line = self.find_cast(name)
        if line is None or not line.is_ready:
            raise forms.ValidationError(f"{name} is not available: {line.why_not if line else 'it no longer exists'}.")
        return name

    def start(self, user: User) -> Run:
        data = self.cleaned_data
        order = creation.CodeOrder(
            [row.slug for row in data["tasks"]],
            data["cast"],
            data["ns"],
            data["per_n"],
            data["mode"],
            attempts=data["attempts"],
            seed=data["seed"],
            # Only the code that prompts show can be blank: the scaffold of the cast then decides.
            conditions=conditions.read_conditions(
                {name: data[name] for name in _DEFAULTS.to_json() if data[name] != ""}
            ),
            mask_keys=data["keys"],
        )
        return creation.create_code_run(
            order,
            user=user,
            submission_id=data["submission_id"],
            prompt_set=data["prompt_set"],
            **self.get_limits(),
        )

    @cached_property
    def available_casts(self) -> list[CodeCastOption]:
        return code_cast_availability.list_code_casts()

    def find_cast(self, name: object) -> CodeCastOption | None:
        return next((line for line in self.available_casts if line.name == name), None)

    def list_tasks(self) -> list[tuple[ReplicationTask, bool]]:
        chosen = self["tasks"].value() or []
        return [(row, row.slug in chosen) for row in self.fields["tasks"].queryset]  # type: ignore[attr-defined]  # a model field's

    def group_casts(self) -> Iterator[CastGroup]:
        """Yield the casts that can run here in groups, each with whether it is chosen."""
        chosen, ready = self["cast"].value(), [line for line in self.available_casts if line.is_ready]
        titles = (("Rules: no API cost, reproducible, and no results of a model", False), ("Language models", True))
        for title, has_model in titles:
            rows: Any = [(line, line.name == chosen) for line in ready if line.speaks is has_model]
            if rows:
                yield CastGroup(title, rows)

    def list_unavailable(self) -> UnavailableCasts | None:
        return group_unavailable("cast", [(line.name, line) for line in self.available_casts])

    def build_size(self) -> dict[str, Any]:
        """Return the context of _order_size.html: masks times attempts, the maximum cost, and what is not validated yet."""
        rows = [row for row, chosen in self.list_tasks() if chosen]
        attempts = _read_number(self["attempts"].value(), _MAX_ATTEMPTS)
        needs = "Choose at least one task, numbers of hidden functions that it has or keys of its masks, and attempts."
        try:
            drawn = self._draw(rows)
        except forms.ValidationError as error:
            drawn, needs = [], " ".join(error.messages)
        except MaskDrawError as error:
            drawn, needs = [], f"{error}."
        line, total = self.find_cast(self["cast"].value()), len(drawn) * attempts
        worst = None
        if line and line.is_ready and total:
            setup = code_cast_availability.freeze_code_cast(line.name)
            steps = _read_number(self["steps"].value(), 1000) or _DEFAULTS.steps
            hidden = [mask.n for mask in drawn]
            worst = run_usage.estimate_code_episodes(
                setup, hidden * attempts, steps, _read_amount(self["cost"].value())
            )
        validated = masks.find_validated(rows) if drawn else set()
        missing = [mask for mask in drawn if (mask.task_id, mask.key) not in validated]
        return {
            "total": total,
            "noun": "code episode",
            "factors": [(len(drawn), "mask"), (attempts, "attempt")],
            "needs": needs,
            "cast": line,
            "worst": worst,
            "unvalidated": len(missing),
            "n_masks": len(drawn),
            "commands": creation.list_validation_commands(missing),
            "by_rules": line is not None and is_rule_based(line.name),
        }

    def _draw(self, rows: Sequence[ReplicationTask]) -> list[Mask]:
        """Return the masks that a run would have, without storing them: none while fields are empty.

        Raises ValidationError and MaskDrawError if the numbers or keys are wrong.
        """
        mode, per_n = self["mode"].value(), _read_number(self["per_n"].value(), _MAX_PER_N)
        if keys := parse_keys(str(self["keys"].value() or "")):
            return [mask for row in rows for mask in masks.find_masks(row, keys)]
        written = str(self["ns"].value() or "")
        numbers = parse_numbers(written) if written.strip() else []
        if not per_n or mode not in MODES:
            return []
        drawn = []
        for row in rows:
            task = tasks.get_task(row)
            draws = [draw for n in numbers if n <= len(task.functions) for draw in draw_masks(task, n, per_n, mode)]
            drawn += masks.build_masks(row, draws)
        return drawn


def _read_number(written: object, most: int) -> int:
    """Return an integer up to `most`; 0 for anything else."""
    text = str(written or "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= most else 0


def _read_amount(written: object) -> Decimal | None:
    """Return an amount of money, or None for anything else."""
    try:
        amount = Decimal(str(written))
    except ArithmeticError:
        return None
    return amount if amount.is_finite() and 0 < amount <= 1000 else None


@staff_form
def start_code_run(request: StaffRequest) -> HttpResponse:
    """Show the form of a run and, with htmx or a button, what would be created and the maximum cost."""
    form = _read_form(request)
    if new_run := form.try_start(request):
        return redirect("simulation:run", code=new_run.code)
    if request.htmx:
        return render(request, "simulation/_order_size.html", CodeRunForm(request.GET).build_size())
    context = {"form": form, "no_sandbox": _find_sandbox_problem(), **form.build_size()}
    return render(request, "simulation/replication/new.html", context, status=422 if form.errors else 200)


def _read_form(request: StaffRequest) -> CodeRunForm:
    """Return the form as sent, or with the values of a link. "Select all" and "Select none" check nothing."""
    if SELECT_BUTTON in request.POST:
        fields = CodeRunForm.base_fields.items()
        typed = {name: field.widget.value_from_datadict(request.POST, {}, name) for name, field in fields}
        is_all = request.POST[SELECT_BUTTON] == "all"
        slugs = list(ReplicationTask.objects.values_list("slug", flat=True)) if is_all else []
        return CodeRunForm(initial={**typed, "tasks": slugs})
    if request.method == "POST":
        return CodeRunForm(request.POST)
    linked: dict[str, Any] = {"tasks": request.GET.getlist("tasks")} if "tasks" in request.GET else {}
    linked |= {name: request.GET[name][:1000] for name in ("ns", "keys") if name in request.GET}
    return CodeRunForm(initial=linked)


def _find_sandbox_problem() -> str:
    """Return why nothing can be ordered here, with the line that helps; "" if a sandbox can be used."""
    try:
        creation.require_sandbox()
    except LabError as error:
        return str(error)
    return ""
