"""What may be asked to rate a study beside its people, and what that would come to."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from django import forms
from django.db.models import TextField
from django.db.models.functions import Cast, Length

from ratings.models import EVIDENCE, Item, MachineRater, Study
from ratings.protocol import protocols
from ratings.raters.machines import machine_work, machines
from ratings.studies import StudyError
from simulation.casts import roster
from simulation.casts.estimating import Estimate
from simulation.lab.errors import LabError
from simulation.runs import Limits
from simulation.web.forms.order_form import Budget, CastGroup

MEASURED: Final = 2000  # items whose prompts are put together to say what an order may cost: about a second
_CHECKER = roster.RaterLine(
    machines.CHECKER,
    "The rules of WetBench's checker, given the blinded payload and no more. Free, the same every time.",
)


class MachineForm(Budget):
    """An order of ratings: who is asked, what is shown, and what may be used up."""

    field_order = ("cast", "context")

    cast = forms.ChoiceField(
        label="Who rates", widget=forms.RadioSelect, error_messages={"required": "Choose who rates."}
    )
    context = forms.ChoiceField(
        choices=[("no", "the payload alone"), ("yes", "the payload and its context")],
        widget=forms.RadioSelect,
        initial="no",
        required=False,
        label="What a model is shown",
        help_text="Some raters of this study see the context and others do not. A model is one rater: it sees one of the two.",
    )

    def __init__(self, study: Study, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.study = study
        ready = [(line.name, line.name) for line in self.lines if line.ready]
        self.fields["cast"].choices = ready  # type: ignore[attr-defined]  # a ChoiceField has them
        self.fields["cast"].initial = ready[0][0] if ready else ""
        if study.kind == EVIDENCE or set(protocols.stored(study.protocol).display.context) != {True, False}:
            del self.fields["context"]

    @cached_property
    def lines(self) -> list[roster.RaterLine]:
        """Everybody who could rate and does not yet."""
        asked = set(MachineRater.objects.filter(study=self.study).values_list("cast", flat=True))
        rules = [] if self.study.kind == EVIDENCE else [_CHECKER]
        return [line for line in (*rules, *roster.raters()) if line.name not in asked]

    def cast_groups(self) -> Iterator[CastGroup]:
        """Those who can rate here, each with whether it is chosen."""
        chosen = self["cast"].value()
        ready = [line for line in self.lines if line.ready]
        models = [line for line in ready if line is not _CHECKER and not line.of_cast]
        kinds = {
            "Rules": [line for line in ready if line is _CHECKER],
            "Models, each by itself": models,
            "Casts: the first classifier rates, with its parameters": [line for line in ready if line.of_cast],
        }
        for title, lines in kinds.items():
            if lines:
                yield CastGroup(title, [(line, line.name == chosen) for line in lines])

    def others(self) -> list[roster.RaterLine]:
        """Those who cannot rate here, with what is missing."""
        return [line for line in self.lines if not line.ready]

    def wanted_context(self) -> bool | None:
        """As `machines.order` takes it; None where there is nothing to choose."""
        if "context" not in self.fields or self["cast"].value() == machines.CHECKER:
            return None
        return str(self["context"].value()) == "yes"

    def terms(self) -> Limits:
        return self.limits() if self.cleaned_data["cast"] != machines.CHECKER else {}


def size(form: MachineForm) -> dict[str, Any]:
    """Context of simulation/_order_size.html: the items, once each, and their worst case."""
    items = Item.objects.filter(study=form.study)
    line = next((line for line in form.lines if line.name == form["cast"].value()), None)
    total = items.count() if line is not None and line.ready else 0
    return {
        "total": total,
        "noun": "rating",
        "factors": [],
        "needs": "Choose who rates.",
        "cast": line,
        "worst": _worst(form, line.name, total) if line is not None and total else None,
    }


def _worst(form: MachineForm, cast: str, total: int) -> Estimate | None:
    """By the prompts of the items that are longest, the others counted as the longest of those."""
    try:
        rater = machines.planned(form.study, cast, context=form.wanted_context())
    except (StudyError, LabError):  # the order itself says what is wrong
        return None
    items = Item.objects.filter(study=form.study)
    if total > MEASURED:
        items = items.order_by(Length(Cast("payload", TextField())).desc())[:MEASURED]
    found = machine_work.worst_case(rater, items, max(0, total - MEASURED))
    return found and found._replace(assumes=_assumes(total))


def _assumes(total: int) -> str:
    said = (
        "every answer as long as its limit, every repeat that is allowed, nothing cached, a token for every two bytes"
    )
    if total > MEASURED:
        return f"{said}; the prompts of the {MEASURED:,} longest items, every other counted as the longest of those"
    return f"{said}; the prompts of the items themselves"
