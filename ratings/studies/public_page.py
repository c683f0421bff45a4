"""The public page of a study: what people who are asked to take part may read before they sign in.

It is off until an admin of the study turns it on. Its address contains a random token and not the study's name; the page
that is off, and a wrong token, do not exist. Nothing here reads items or sources, except to reject words that name one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from django.db import transaction

from ratings.models import PublicPage, Study
from ratings.models.studies import new_public_token
from ratings.models.study_events import PublicPageChanged
from ratings.protocol import study_protocol
from ratings.studies import StudyError, designs, progress, quarantine
from ratings.studies.lifecycle import Actor, log_event
from simulation.lab.planted_errors import revealing_words

TEXTS = ("about", "who", "duration", "payment", "contact", "questions")
NEEDED = {"about": "what the study is about", "who": "who is asked to take part", "contact": "whom to contact"}
# Words that are allowed, but often say how items were made or how many have errors: the preview asks the admin to check them.
_DOUBTFUL = re.compile(
    r"\b(?:planted|inject\w*|simulat\w*|generat\w*|artificial\w*|fake\w*|synthetic\w*|models?|machines?|errors?|mistakes?|percent\w*"
    r"|AI|LLMs?|half|third|quarter)\b|%",
    re.IGNORECASE,
)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Question(NamedTuple):
    """A question of the page with its answer."""

    text: str
    answer: str


class LineProblem(NamedTuple):
    """A line of a text, from 1, and what is wrong with it."""

    line: int
    message: str


def load_page(study: Study) -> PublicPage:
    """Return the page of the study. Before the first change, it is not stored, off, and has the contact of the protocol."""
    page = PublicPage.objects.filter(study=study).first() or PublicPage(study=study, **_list_defaults(study))
    page.study = study
    return page


def find_page(token: str) -> PublicPage | None:
    """Return the page with this token if it is on."""
    return PublicPage.objects.select_related("study").filter(token=token, is_on=True).first()


@transaction.atomic
def save_texts(study: Study, values: Mapping[str, object], by: Actor = None) -> bool:
    """Store texts that were checked before, and return whether any has changed. Raises StudyError if a public page would lack one."""
    page = _lock_page(study)
    changed = [name for name, value in values.items() if getattr(page, name) != value]
    for name in changed:
        setattr(page, name, values[name])
    if page.is_on:
        _require_complete(page)
    if changed:
        page.save(update_fields=changed)
        log_event(study, PublicPageChanged(change="text"), by)
    return bool(changed)


@transaction.atomic
def set_on(study: Study, is_on: bool, by: Actor = None) -> None:
    """Turn the page on or off. Raises StudyError if a page without a needed text would be turned on."""
    page = _lock_page(study)
    if page.is_on == is_on:
        return
    if is_on:
        _require_complete(page)
    page.is_on = is_on
    page.save(update_fields=["is_on"])
    log_event(study, PublicPageChanged(change="on" if is_on else "off"), by)


@transaction.atomic
def replace_link(study: Study, by: Actor = None) -> None:
    """Give the page another token: the link that was sent before no longer works."""
    page = _lock_page(study)
    page.token = new_public_token()
    page.save(update_fields=["token"])
    log_event(study, PublicPageChanged(change="link"), by)


def _lock_page(study: Study) -> PublicPage:
    PublicPage.objects.get_or_create(study=study, defaults=_list_defaults(study))
    return PublicPage.objects.select_for_update().get(study=study)


def _list_defaults(study: Study) -> dict[str, str]:
    return {"contact": study_protocol.load_protocol(study.protocol).contact}


def list_missing(page: PublicPage) -> list[str]:
    """Return the needed texts that the page lacks, as a person would call them."""
    return [purpose for name, purpose in NEEDED.items() if not getattr(page, name).strip()]


def _require_complete(page: PublicPage) -> None:
    if missing := list_missing(page):
        raise StudyError(
            f"The page cannot be public without {' and '.join(missing)}. Fill in what is missing and save it"
        )


def find_forbidden_words(study: Study, text: str) -> list[LineProblem]:
    """Return the lines that name a source or reveal that errors were planted; raters must not learn either."""
    lexicon = quarantine.build_lexicon(study)
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        for name in lexicon.find_names(line):
            meaning = quarantine.NAME_KINDS.get(name.kind, "the name of a model")
            problems.append(
                LineProblem(number, f"“{name.text}” is {meaning}; raters must not learn where items come from")
            )
        problems += [
            LineProblem(number, f"“{word}” suggests planted errors; raters must not expect them")
            for word in revealing_words.find_revealing_words(line)
        ]
    return problems


def find_doubtful_words(page: PublicPage) -> list[str]:
    """Return the words of the page that an admin should check before turning it on, in order and each once."""
    matches = (match[0] for name in TEXTS for match in _DOUBTFUL.finditer(getattr(page, name)))
    return list(dict.fromkeys(matches))


def parse_questions(text: str) -> list[Question]:
    """Return the questions with their answers: blocks between blank lines, the first line of each is the question."""
    blocks = (block.strip() for block in _BLANK_LINE.split(text) if block.strip())
    return [Question(question, answer) for question, _, answer in (block.partition("\n") for block in blocks)]


def find_question_problems(text: str) -> list[LineProblem]:
    """Return the questions that have no answer."""
    problems, line = [], 1
    for block in re.split(r"(\n[ \t]*\n)", text):
        if block.strip() and "\n" not in block.strip():
            first = line + block[: len(block) - len(block.lstrip())].count("\n")
            problems.append(LineProblem(first, f"“{block.strip()[:60]}” has no answer: write it on the next line"))
        line += block.count("\n")
    return problems


def count_items_of_a_rater(study: Study) -> int | None:
    """Return how many items a rater is asked to rate; None if that is not fixed, or not known before the study opens.

    It is the number of the first rater who has not left: in a balanced design, those of others can differ by a few.
    """
    if designs.is_pool_study(study):
        return study_protocol.load_protocol(study.protocol).items_per_rater
    rater = study.raters.filter(withdrawn_at=None, imported_as="").order_by("number").first()
    return progress.count_items(rater) if rater else None


def iter_public_texts(page: PublicPage) -> Iterator[tuple[str, str]]:
    """Yield the name and text of everything that the admin wrote on the page."""
    yield from ((name, text) for name in TEXTS if (text := getattr(page, name)))
