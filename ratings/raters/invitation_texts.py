"""The wording of invitations: the default, and what an admin has written for one study, with placeholders.

Every placeholder is replaced once: a name that looks like a placeholder stays as it is. The deadline and the contact of
the study follow every text, so no wording can omit them.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from django.utils import timezone

from ratings.models import InvitationText, Study
from ratings.raters.email_messages import Message, list_study_terms
from ratings.studies.lifecycle import Actor

# In the order in which the form explains them.
PLACEHOLDERS: Mapping[str, str] = {
    "name": "the name from your list; left out, with the space before it, where there is none",
    "link": "the personal link; the text must contain it, and the subject must not",
    "study": "the name of the study",
    "days": "the number of days for which the link works",
    "duration": "the field “Expected duration”",
    "payment": "the field “Payment”",
    "sender": "the field “Sender name”",
}
_FROM_FIELDS = {"duration": "Expected duration", "payment": "Payment", "sender": "Sender name"}
_PLACEHOLDER = re.compile(r"\{([^{}\n]*)\}")
# A missing name is removed together with the blanks before it: "Hello {name}," becomes "Hello,".
_NAME = re.compile(r"[ \t]*\{name\}")

DEFAULT_SUBJECT = "Invitation to rate: {study}"
DEFAULT_BODY = """Hello {name},

You are invited to take part as a rater in the study {study}.

This is your personal link. It works for {days} days and for one person:

{link}

The page explains the study and how long it takes, and asks whether you want to take part. If you do not want to, you need not do anything."""


class Wording(NamedTuple):
    """The wording of a study's invitations. `sender`, `duration` and `payment` are "" if they are not stated."""

    subject: str = DEFAULT_SUBJECT
    body: str = DEFAULT_BODY
    sender: str = ""
    duration: str = ""
    payment: str = ""


def load_wording(study: Study) -> Wording:
    """Return the study's own wording, or else the default."""
    row = InvitationText.objects.filter(study=study).first()
    return Wording(row.subject, row.body, row.sender, row.duration, row.payment) if row else Wording()


def save_wording(study: Study, wording: Wording, by: Actor = None) -> None:
    """Store the wording. Raises ValueError if it has a problem."""
    if problems := find_problems(wording):
        raise ValueError("; ".join(f"{field}: {message}" for field, message in problems))
    values = {**wording._asdict(), "updated_at": timezone.now(), "updated_by": by}
    InvitationText.objects.update_or_create(study=study, defaults=values)


def reset_wording(study: Study) -> None:
    """Return to the default wording."""
    InvitationText.objects.filter(study=study).delete()


def find_problems(wording: Wording) -> list[tuple[str, str]]:
    """Return every problem as a field and a message; an empty list if the wording can be used."""
    problems = []
    for field in ("subject", "body"):
        text = getattr(wording, field)
        allowed = [name for name in PLACEHOLDERS if field == "body" or name != "link"]
        problems += [(field, message) for message in _find_placeholder_problems(text, allowed, field == "body")]
        for name, title in _FROM_FIELDS.items():
            if f"{{{name}}}" in text and not getattr(wording, name):
                problems.append((name, f"The {_TITLES[field]} contains {{{name}}}: fill in “{title}”, or remove it."))
    if "{link}" not in wording.body:
        problems.append(("body", "The text does not contain {link}, so nobody could open the study. Add it."))
    return list(dict.fromkeys(problems))


_TITLES = {"subject": "subject", "body": "text"}


def _find_placeholder_problems(text: str, allowed: list[str], with_lines: bool) -> list[str]:
    """Return a message for every placeholder that does not exist and every brace without its counterpart."""
    problems, list_of_allowed = [], ", ".join(f"{{{name}}}" for name in allowed)
    for number, line in enumerate(text.splitlines(), 1):
        place = f"Line {number}: " if with_lines else ""
        for name in _PLACEHOLDER.findall(line):
            if name == "link" and "link" not in allowed:
                problems.append("The subject must not contain {link}: mail servers log subjects.")
            elif name not in allowed:
                problems.append(f"{place}{{{name[:40]}}} is not a placeholder. Allowed: {list_of_allowed}.")
        if re.search(r"[{}]", _PLACEHOLDER.sub("", line)):
            problems.append(f"{place}a brace without its counterpart. Braces are for placeholders: {list_of_allowed}.")
    return problems


def write_invitation(
    to: str, study: Study, url: str, days: int, name: str = "", wording: Wording | None = None
) -> Message:
    """Return the invitation in the study's wording (or in `wording`, for a preview)."""
    wording = wording or load_wording(study)
    values = {**wording._asdict(), "name": name, "link": url, "study": study.name, "days": str(days)}
    body = "\n\n".join((_fill(wording.body, values).strip(), *list_study_terms(study))) + "\n"
    # Line breaks in a subject would start another e-mail header.
    subject = " ".join(_fill(wording.subject, values).split())[:200]
    return Message(to, subject, body, wording.sender)


def _fill(text: str, values: Mapping[str, str]) -> str:
    if not values["name"]:
        text = _NAME.sub("", text)
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
