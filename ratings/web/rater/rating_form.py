"""A rater's answer to one item, as sent by the browser."""

import math
import re
import uuid
from typing import Any

from django import forms

from ratings.blinding import allow_list
from ratings.blinding.pseudonyms import replace_invisible
from ratings.models import Assignment, Rating, Study, UnsavedAnswer
from ratings.rating import Answer
from ratings.rating.submit import Timing
from ratings.studies.rendered_items import FINAL_STAGE, FIRST_STAGE

INTERFACE = "4"  # increase whenever the rating page changes for raters; stored with each rating
MAX_NOTE_LENGTH = 2000
MAX_CALCULATIONS = 999

_CONFIDENCE_MISSING = "Choose how confident you are, from 1 to 5."
_HANDS = ("keys", "pointer", "both")
VIEWPORT = re.compile(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}")
VERSION = re.compile(r"[0-9][0-9.]{0,11}")


class SharedFields(dict[str, forms.Field]):
    """The fields of a form class, which its forms share and never change. Django would copy all of them for every form."""

    def __deepcopy__(self, memo: Any) -> dict[str, forms.Field]:
        return dict(self)


class RatingForm(forms.Form):
    """Verdict and confidence, neither with a default; also marked rows and a note.

    `submission_id` is created when the form is rendered, so that a form sent twice is not taken for two answers.
    `revision` is that of the answer on the page (0: none). `assignment` is None in practice.
    """

    verdict = forms.TypedChoiceField(
        choices=[("yes", "yes"), ("no", "no")], coerce=lambda word: word == "yes", empty_value=None, required=False
    )
    confidence = forms.TypedChoiceField(
        choices=[(number, str(number)) for number in range(1, 6)], coerce=int, empty_value=None, required=False,
        error_messages={"invalid_choice": _CONFIDENCE_MISSING},
    )  # fmt: skip
    cannot_judge = forms.BooleanField(required=False)
    marks = forms.Field(required=False, widget=forms.SelectMultiple)
    note = forms.CharField(required=False, max_length=MAX_NOTE_LENGTH)
    revision = forms.IntegerField(required=False, min_value=0)
    stage = forms.ChoiceField(required=False, choices=[(FIRST_STAGE, FIRST_STAGE), (FINAL_STAGE, FINAL_STAGE)])
    submission_id = forms.UUIDField()

    def __init__(self, study: Study, data: Any = None, assignment: Assignment | None = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.assignment = assignment
        self.offers_calculator = offers_calculator(study)
        self.missing_verdict = "Choose {} or {}.".format(*study.answer_labels)

    def clean_marks(self) -> tuple[str, ...]:
        """Return the marked rows in the order of the item, each once."""
        posted = set(self.cleaned_data["marks"])
        if not posted:
            return ()
        has_marks = self.assignment is not None and self.assignment.marks != "off"
        keys = allow_list.list_mark_keys(self.assignment.item.payload) if self.assignment and has_marks else []
        if not posted.issubset(keys):
            raise forms.ValidationError("A marked row is not part of this item.")
        return tuple(key for key in keys if key in posted)

    def clean_note(self) -> str:
        return _clean_note(self.cleaned_data["note"]).strip()

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if repeated := [name for name in self.fields if name != "marks" and len(_list_values(self.data, name)) > 1]:
            names = ", ".join(repeated)
            raise forms.ValidationError(f"The form contains more than one value for: {names}. Choose again and save.")
        if "verdict" in self.errors:
            self.errors["verdict"] = self.error_class([self.missing_verdict])
        # Choices made before "cannot judge" was pressed are dropped, and so are their errors.
        if values.get("cannot_judge"):
            values.update(verdict=None, confidence=None, marks=())
            for name in ("verdict", "confidence", "marks"):
                self.errors.pop(name, None)
            return values
        for name, message in (("verdict", self.missing_verdict), ("confidence", _CONFIDENCE_MISSING)):
            if name not in self.errors and values.get(name) is None:
                self.add_error(name, message)
        if values.get("verdict") is True and self.assignment and self.assignment.marks == "if_not_plausible":
            values["marks"] = ()  # the checkboxes are hidden now; rows marked before the verdict changed do not count
        return values

    @property
    def next_submission_id(self) -> uuid.UUID:
        """The submission id for the next attempt: the one just sent, or a new one if none was sent or it was rejected."""
        is_usable = self.is_bound and not self.non_field_errors()
        return (self.cleaned_data.get("submission_id") if is_usable else None) or uuid.uuid4()

    @property
    def parsed_answer(self) -> Answer:
        return Answer(**{name: self.cleaned_data[name] for name in Answer._fields})

    @property
    def marked_rows(self) -> list[str]:
        """The rows to show as marked."""
        return _list_values(self.data, "marks") if self.is_bound else list(self.initial.get("marks", []))

    def parse_timing(self, seconds: float) -> Timing:
        """Return the times measured by the browser, limited to the time for which the item was open by the server's clock."""
        active = _parse_number(self.data.get("active_seconds"), seconds)
        first = _parse_number(self.data.get("first_verdict_seconds"), seconds if active is None else active)
        return Timing(active, first, int(_parse_number(self.data.get("changes"), 999) or 0))

    @property
    def client_details(self) -> dict[str, Any]:
        """Input device, window size, page version and use of the calculator; "" or None for what is missing or invalid."""
        # Never an error: an answer must not be lost because a browser measured nonsense.
        hand = self.data.get("hand", "")
        return {
            "input_device": hand if hand in _HANDS else "",
            "viewport": _match_or_blank(VIEWPORT, self.data.get("viewport", "")),
            "interface": _match_or_blank(VERSION, self.data.get("interface", "")),
            "calculations": self._parse_calculations(),
        }

    def _parse_calculations(self) -> int | None:
        """Return the number of calculations; None unless the page offered the calculator and it was opened."""
        if not self.offers_calculator or "calculations" not in self.data:
            return None
        number = _parse_number(self.data["calculations"], MAX_CALCULATIONS)
        return None if number is None else int(number)


def offers_calculator(study: Study) -> bool:
    """Return whether the rating page of this study has a calculator. Every document that was opened states it."""
    # Read from the document itself: parsing the protocol for each answer would take longer than the rest of the form.
    return bool(study.protocol.get("display", {}).get("calculator"))


RatingForm.base_fields = SharedFields(RatingForm.base_fields)


def parse_draft(data: Any, assignment: Assignment) -> Answer:
    """Return the choices made so far. Invalid values are left out: an unsaved answer is never rejected."""
    keys = allow_list.list_mark_keys(assignment.item.payload) if assignment.marks != "off" else []
    posted = set(_list_values(data, "marks"))
    return Answer(
        {"yes": True, "no": False}.get(data.get("verdict", "")),
        {str(number): number for number in range(1, 6)}.get(data.get("confidence", "")),
        marks=tuple(key for key in keys if key in posted),
        note=_clean_note(str(data.get("note", "")).replace("\0", "")[:MAX_NOTE_LENGTH]),
    )


def build_initial_values(stored: Rating | UnsavedAnswer | None) -> dict[str, Any]:
    """Return the form's initial values from the current answer or an unsaved one."""
    if stored is None:
        return {}
    verdict_values = {True: "yes", False: "no", None: ""}
    choices = {"verdict": verdict_values[stored.verdict], "confidence": str(stored.confidence or "")}
    return {**choices, "marks": stored.marks, "note": stored.note}


def _list_values(data: Any, name: str) -> list[str]:
    return [str(value) for value in data.getlist(name)]


def _clean_note(note: str) -> str:
    """Return the note with its line breaks, without characters that hide text or change its direction."""
    return "\n".join(replace_invisible(line) for line in re.split("\r\n|\r|\n", note))


def _parse_number(text: Any, maximum: float) -> float | None:
    """Return the number, limited to the range from 0 to `maximum`, or None if the text is not a number."""
    try:
        # Shortened first, because the text comes from the browser and can have any length.
        number = float(str(text)[:20])
    except ValueError:
        return None
    return min(max(number, 0.0), maximum) if math.isfinite(number) else None


def _match_or_blank(pattern: re.Pattern[str], text: Any) -> str:
    return text if isinstance(text, str) and pattern.fullmatch(text) else ""
