"""The forms of the pages of raters: invitations, lists, wording, places, and the filter of the list."""

from io import BytesIO
from typing import Any

from django import forms

from ratings.exchange.imports import invitation_lists
from ratings.protocol import study_protocol
from ratings.raters import invitation_texts
from ratings.raters.invitation_texts import Wording
from ratings.raters.rater_overview import GROUPS
from wetbench_site.sorted_lists import MAX_SEARCH


class InviteForm(forms.Form):
    """Pasted e-mail addresses; `mailings` checks them line by line."""

    addresses = forms.CharField(
        label="E-mail addresses",
        max_length=20_000,
        help_text="One per line, or separated by commas; “Name <address>” also works. Each address gets an open rater place and a personal link; at most 200 at a time.",
        widget=forms.Textarea(attrs={"rows": 5, "autocomplete": "off", "spellcheck": "false"}),
    )


class AddRatersForm(forms.Form):
    raters = forms.IntegerField(label="Number of places", min_value=1, max_value=study_protocol.MAX_RATERS, initial=1)


class FilterForm(forms.Form):
    """The search and the filter of the list. Values that are not offered are ignored."""

    q = forms.CharField(label="Code, name or address", required=False, max_length=MAX_SEARCH)
    state = forms.ChoiceField(label="Status", required=False, choices=[("", "all"), *GROUPS.items()])
    q.widget.attrs |= {"type": "search", "autocomplete": "off"}


class ListForm(forms.Form):
    """A list of people: a CSV file, or a table pasted from a spreadsheet."""

    file = forms.FileField(label="CSV file", required=False, max_length=200)
    table = forms.CharField(
        label="or paste the table here", required=False, max_length=200_000, strip=False,
        help_text="With the heading. Cells copied from a spreadsheet work as they are.",
        widget=forms.Textarea(attrs={"rows": 6, "autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if not self.errors and bool(values.get("file")) == bool(values.get("table", "").strip()):
            both = (
                "Choose a file or paste a table, not both."
                if values.get("file")
                else "Choose a file, or paste a table."
            )
            raise forms.ValidationError(both)
        return values

    def parse_list(self) -> invitation_lists.InvitationList:
        """Return the people of the list, with the problems of the table."""
        file: Any = self.cleaned_data["file"]
        text: str = self.cleaned_data["table"]
        return invitation_lists.parse_list_file(file.file) if file else invitation_lists.parse_list_file(BytesIO(text.encode()))  # fmt: skip


class WordingForm(forms.Form):
    """The wording of a study's invitations. `invitation_texts` checks the placeholders."""

    sender = forms.CharField(
        label="Sender name", required=False, max_length=80,
        help_text="Shown as the sender of this study’s invitations and reminders, such as “Dr. Vogel, Genome Lab”. The address stays that of this site.",
    )  # fmt: skip
    duration = forms.CharField(label="Expected duration", required=False, max_length=80, help_text="For example “about 90 minutes”.")  # fmt: skip
    payment = forms.CharField(label="Payment", required=False, max_length=120, help_text="For example “$40 per hour of active time”.")  # fmt: skip
    subject = forms.CharField(label="Subject", max_length=150)
    body = forms.CharField(label="Text", max_length=5_000, widget=forms.Textarea(attrs={"rows": 14}))

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        for name, value in values.items():
            values[name] = value.replace("\r\n", "\n") if name == "body" else " ".join(value.split())
        if not self.errors:
            for field, message in invitation_texts.find_problems(Wording(**values)):
                self.add_error(field, message)
        return values
