"""Fields of the form of a run: whether agents are given a protocol, and which of its steps are hidden."""

from typing import Any

from django import forms

from simulation.lab.hidden_steps.masks import Drawing
from simulation.runs import create
from simulation.runs.protocol_masks import MAX_HIDDEN, MaskOrder

MAX_MASKS = 100  # of one form: every mask is played before it is used, while a worker does nothing else
MAX_DRAWS = 20


class MaskFields(forms.Form):
    """Which steps of the reference protocol are hidden. Blank: agents are given no protocol."""

    hide = forms.RegexField(
        r"^\s*\d{1,2}\s*(,\s*\d{1,2}\s*)*$",
        required=False,
        max_length=80,
        label="Numbers of hidden steps",
        help_text="Divided by commas, such as 0, 1, 3; with 0, the whole protocol is given. Leave blank to give agents no protocol."
        " A worker finds the essential steps of an experiment at its first order and checks every mask, which takes some seconds.",
        error_messages={"invalid": f"Enter numbers from 0 to {MAX_HIDDEN} divided by commas."},
    )
    draws = forms.IntegerField(
        min_value=1,
        max_value=MAX_DRAWS,
        initial=3,
        required=False,
        label="Masks per number",
        help_text=f"1 to {MAX_DRAWS} masks of each experiment for each number of hidden steps; fewer if fewer exist.",
    )
    mask_mode = forms.ChoiceField(
        required=False,
        label="Kind of masks",
        choices=[
            ("uniform", "uniform: any essential steps"),
            ("nested", "nested: larger masks contain smaller ones"),
        ],
    )
    help_mode = forms.ChoiceField(
        required=False,
        label="Help",
        choices=[
            ("text", "text: the agent does every step"),
            ("prefix", "prefix: the steps before the first hidden one are done for it"),
        ],
    )
    mask_seed = forms.IntegerField(
        min_value=0,
        max_value=create.MAX_SEED,
        initial=1,
        required=False,
        label="Seed of the masks",
        help_text="Equal seeds give equal masks, so that casts can be compared.",
    )

    def clean_hide(self) -> tuple[int, ...]:
        """Return the numbers. Raise ValidationError if one is repeated or too large."""
        numbers = parse_numbers(self.cleaned_data["hide"])
        if len(set(numbers)) < len(numbers) or any(n > MAX_HIDDEN for n in numbers):
            raise forms.ValidationError(f"Enter each number from 0 to {MAX_HIDDEN} at most once.")
        return numbers

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        masks = len(cleaned.get("experiments") or ()) * count_masks(
            cleaned.get("hide") or (), cleaned.get("draws") or 1
        )
        if masks > MAX_MASKS:
            message = f"These are up to {masks} masks, and one form can order {MAX_MASKS}. Order fewer, or use manage.py run_episodes."
            self.add_error("hide", message)
        return cleaned

    def get_mask_order(self) -> MaskOrder | None:
        """Return the masks that the valid form orders, or None if agents are given no protocol."""
        data = self.cleaned_data
        if not data["hide"]:
            return None
        seed = 1 if data["mask_seed"] is None else data["mask_seed"]
        drawing = Drawing(data["draws"] or 1, data["mask_mode"] or "uniform", data["help_mode"] or "text", seed)
        return MaskOrder(data["hide"], drawing)


def parse_numbers(text: object) -> tuple[int, ...]:
    """Return the numbers of a text such as "0, 1, 3"; none for any other text."""
    parts = [part.strip() for part in str(text or "").split(",")]
    return (
        tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() and len(part) < 3 for part in parts) else ()
    )


def count_masks(hide: tuple[int, ...], draws: int) -> int:
    """Return the largest number of masks of one experiment: one that hides nothing, `draws` for each other number."""
    return sum(draws if n else 1 for n in hide)
