"""A rater's answer to one item, as a browser sends it."""

import math
import re
import uuid
from typing import Any

from django import forms

from ratings.blinding import allow_list
from ratings.blinding.naming import visible
from ratings.models import Assignment, Draft, Rating, Study
from ratings.rating import Answer
from ratings.rating.answering import Timing

INTERFACE = "2"  # goes up whenever raters see or press something else
FIRST_STAGE, FINAL_STAGE = "first", "final"
LONGEST_NOTE = 2000

_CONFIDENCE_MISSING = "Choose how confident you are, from 1 to 5."
_HANDS = ("keys", "pointer", "both")
_VIEWPORT = re.compile(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}")
_VERSION = re.compile(r"[0-9][0-9.]{0,11}")


class RatingForm(forms.Form):
    """Verdict and confidence, neither with a default; rows that look wrong and a note beside them.

    `submission_id` is made when the form is shown, so that sending the same form twice is told from answering twice;
    `revision` is that of the answer it showed (0: none). `place` is left out for practice.
    """

    verdict = forms.TypedChoiceField(
        choices=[("yes", "yes"), ("no", "no")], coerce=lambda word: word == "yes", empty_value=None, required=False
    )
    confidence = forms.TypedChoiceField(
        choices=[(number, str(number)) for number in range(1, 6)],
        coerce=int,
        empty_value=None,
        required=False,
        error_messages={"invalid_choice": _CONFIDENCE_MISSING},
    )
    cannot_judge = forms.BooleanField(required=False)
    marks = forms.MultipleChoiceField(
        required=False, error_messages={"invalid_choice": "A marked row is not part of this item."}
    )
    note = forms.CharField(required=False, max_length=LONGEST_NOTE)
    revision = forms.IntegerField(required=False, min_value=0)
    stage = forms.ChoiceField(required=False, choices=[(FIRST_STAGE, FIRST_STAGE), (FINAL_STAGE, FINAL_STAGE)])
    submission_id = forms.UUIDField()

    def __init__(self, study: Study, data: Any = None, place: Assignment | None = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.place = place
        self.missing_verdict = "Choose {} or {}.".format(*study.answers)
        self.fields["verdict"].error_messages["invalid_choice"] = self.missing_verdict
        marks = self.fields["marks"]
        assert isinstance(marks, forms.MultipleChoiceField)
        asked = self.is_bound and place is not None and place.marks != "off"
        keys = allow_list.mark_keys(place.item.payload) if place and asked else []
        marks.choices = [(key, key) for key in keys]

    def clean_marks(self) -> tuple[str, ...]:
        """In the item's own order, each once."""
        chosen = set(self.cleaned_data["marks"])
        choices = self.fields["marks"].choices  # type: ignore[attr-defined]  # set in __init__
        return tuple(key for key, _ in choices if key in chosen)

    def clean_note(self) -> str:
        return _readable(self.cleaned_data["note"]).strip()

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if twice := [name for name in self.fields if name != "marks" and len(_several(self.data, name)) > 1]:
            raise forms.ValidationError(f"The form says two things at once: {', '.join(twice)}. Choose again and save.")
        if given.get("cannot_judge"):
            given.update(verdict=None, confidence=None, marks=())
            for name in ("verdict", "confidence", "marks"):
                self.errors.pop(name, None)
            return given
        self._ask("verdict", self.missing_verdict)
        self._ask("confidence", _CONFIDENCE_MISSING)
        if given.get("verdict") is True and self.place and self.place.marks == "if_not_plausible":
            given["marks"] = ()  # the boxes are out of sight then
        return given

    def _ask(self, name: str, message: str) -> None:
        if name not in self.errors and self.cleaned_data.get(name) is None:
            self.add_error(name, message)

    @property
    def next_submission_id(self) -> uuid.UUID:
        """The id to send with the next try: the one sent before, unless that was none or was refused."""
        usable = self.is_bound and not self.non_field_errors()
        return (self.cleaned_data.get("submission_id") if usable else None) or uuid.uuid4()

    @property
    def answer(self) -> Answer:
        given = self.cleaned_data
        named = (given[name] for name in ("verdict", "confidence", "cannot_judge", "marks", "note"))
        return Answer(*named)

    @property
    def marked(self) -> list[str]:
        """The rows to show as marked."""
        return _several(self.data, "marks") if self.is_bound else list(self.initial.get("marks", []))

    def timing(self, seconds: float) -> Timing:
        """What the browser measured, held to what can be: no longer than the server knows the item was out."""
        active = _number(self.data.get("active_seconds"), seconds)
        first = _number(self.data.get("first_verdict_seconds"), seconds if active is None else active)
        return Timing(active, first, int(_number(self.data.get("changes"), 999) or 0))

    @property
    def how(self) -> dict[str, str]:
        """Keys or pointer, size of the window and version of the page; "" for what was not sent or cannot be."""
        hand = self.data.get("hand", "")
        return {
            "hand": hand if hand in _HANDS else "",
            "viewport": _matching(_VIEWPORT, self.data.get("viewport", "")),
            "interface": _matching(_VERSION, self.data.get("interface", "")),
        }


class DraftForm(forms.Form):
    """What is chosen so far. What cannot be is left out: a draft is never refused."""

    def __init__(self, data: Any, place: Assignment) -> None:
        super().__init__(data)
        self.place = place

    @property
    def answer(self) -> Answer:
        keys = allow_list.mark_keys(self.place.item.payload) if self.place.marks != "off" else []
        chosen = set(_several(self.data, "marks"))
        note = str(self.data.get("note", "")).replace("\0", "")[:LONGEST_NOTE]
        return Answer(
            {"yes": True, "no": False}.get(self.data.get("verdict", "")),
            {str(number): number for number in range(1, 6)}.get(self.data.get("confidence", "")),
            marks=tuple(key for key in keys if key in chosen),
            note=_readable(note),
        )


def shown_again(kept: Rating | Draft | None) -> dict[str, Any]:
    """The form's initial values from an answer that stands or a draft."""
    if kept is None:
        return {}
    words = {True: "yes", False: "no", None: ""}
    confidence = str(kept.confidence or "")
    return {"verdict": words[kept.verdict], "confidence": confidence, "marks": kept.marks, "note": kept.note}


def _several(data: Any, name: str) -> list[str]:
    return [str(value) for value in data.getlist(name)]


def _readable(note: str) -> str:
    """Lines as lines, and nothing in them that turns or hides text."""
    return "\n".join(visible(line) for line in re.split("\r\n|\r|\n", note))


def _number(text: Any, most: float) -> float | None:
    """A number from 0 to `most`; None for what is none."""
    try:
        number = float(str(text)[:20])
    except ValueError:
        return None
    return min(max(number, 0.0), most) if math.isfinite(number) else None


def _matching(pattern: re.Pattern[str], text: Any) -> str:
    return text if isinstance(text, str) and pattern.fullmatch(text) else ""
