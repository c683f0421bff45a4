"""The glossary is the only source of explanations on pages, and a page explains each term once."""

import re

import pytest
from django.conf import settings
from django.template import Context, Engine, TemplateSyntaxError, engines
from django.template.loader import get_template
from django.test import RequestFactory

from wetbench_site.help import glossary

ROOT = settings.BASE_DIR
USING_TERMS = [
    str(path.relative_to(ROOT / "templates"))
    for path in sorted((ROOT / "templates").rglob("*.html"))
    if "{% term " in path.read_text(encoding="utf-8")
]


def render(text: str, **context: object) -> str:
    engine: Engine = engines["django"].engine
    return engine.from_string("{% load terms %}" + text).render(
        Context({"request": RequestFactory().get("/"), **context})
    )


def test_glossary_terms_have_a_meaning_and_one_row() -> None:
    terms = glossary.load_terms()
    assert len(terms) > 100 and all(term.meaning.endswith(".") and len(term.meaning) > 8 for term in terms.values())


def test_glossary_row_with_several_terms_explains_each_in_turn() -> None:
    lease, fence = glossary.get_term("Lease"), glossary.get_term("fence")
    assert lease.meaning == "The right of one worker to write to a row, for a limited time."
    assert (fence.meaning, fence.other_name) == ("The number that proves it.", "lease, fencing token")


def test_term_is_a_named_button_with_the_text_of_the_glossary() -> None:
    html = render('{% term "Occasion" %}')
    assert re.search(r'<button [^>]*type="button" popovertarget="term-occasion" aria-label="What is Occasion\?">', html)
    assert 'id="term-occasion" popover' in html and 'href="/help/glossary/#occasion"' in html
    assert glossary.get_term("Occasion").meaning in html and "style=" not in html


def test_term_is_explained_once_on_a_page_but_again_on_the_next() -> None:
    twice = '{% term "Occasion" %}-{% term "occasion" %}'
    assert render(twice).count("<button") == 1
    assert render(twice).count("<button") == 1


@pytest.mark.parametrize("tag", ['{% term "Occasio" %}', "{% term name %}", "{% term %}", '{% term "Arm" "Mark" %}'])
def test_term_that_the_glossary_lacks_is_an_error_when_the_template_is_loaded(tag: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        render(tag, name="Arm")


@pytest.mark.parametrize("name", USING_TERMS)
def test_templates_with_terms_load(name: str) -> None:
    get_template(name)


def test_pages_of_raters_and_strangers_explain_no_term() -> None:
    """The explanations name planted errors; tests/promises/test_nothing_leaks.py searches what raters get."""
    for folder in ("ratings", "registration", "."):
        for path in (ROOT / "templates" / folder).glob("*.html"):
            text = path.read_text(encoding="utf-8")
            if "rater_base.html" in text or folder != "ratings":
                assert "{% term " not in text, path
