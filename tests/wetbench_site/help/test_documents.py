"""The help renders every document of docs/, follows the links between them, and finds what readers search for."""

import re
from html.parser import HTMLParser

import pytest
from django.conf import settings

from tests.test_docs import list_anchors
from wetbench_site.help import contents, documents
from wetbench_site.help.rendering import LinkedDocument, RenderedDocument, render_document

ROOT = settings.BASE_DIR
NAMES = contents.list_names()


class Page(HTMLParser):
    """Collects ids, links, attributes and elements of a document."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append((tag, values))
        self.attributes |= set(values)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []


def load_document(name: str) -> RenderedDocument:
    document = documents.load_document(name)
    assert document
    return document


def render(text: str, folder: str = "") -> RenderedDocument:
    return render_document(
        f"# Title\n\n{text}",
        folder,
        {"studies.md": LinkedDocument("studies", "Studies"), "decisions/0001-a.md": LinkedDocument("0001-a", "One")},
    )


def test_help_has_every_document_of_the_folder_once() -> None:
    files = sorted(path.stem for path in (ROOT / "docs").rglob("*.md"))
    assert sorted(NAMES) == files and len(set(files)) == len(files)
    assert all(entry.purpose for group in contents.GROUPS for entry in group.entries)


@pytest.mark.parametrize("name", NAMES)
def test_help_document_has_working_links_and_unique_anchors_and_no_inline_style(name: str) -> None:
    document = load_document(name)
    page = Page(document.html)
    assert len(set(page.ids)) == len(page.ids)
    # The anchors that docs/ itself is checked against, without that of the title.
    path = ROOT / "docs" / documents.list_paths()[name]
    assert set(page.ids) >= list_anchors(path) - {re.sub(r"[^\w\- ]", "", document.title.lower()).replace(" ", "-")}
    assert {heading.anchor for heading in document.headings} <= set(page.ids)
    assert page.attributes <= {
        "id",
        "href",
        "class",
        "scope",
        "role",
        "tabindex",
        "aria-label",
        "src",
        "alt",
        "loading",
        "start",
    }
    for link in page.links:
        target, _, anchor = link.partition("#")
        if link.startswith(("https://", "mailto:")):
            continue
        linked = re.fullmatch(r"/help/([\w-]+)/", target)
        assert linked or (not target and anchor), link
        linked_page = Page(load_document(linked[1]).html) if linked else page
        assert not anchor or anchor in linked_page.ids, link


def test_help_links_lead_to_documents_and_files_outside_are_text() -> None:
    page = render(
        "[studies.md](../studies.md#two) [b](0001-a.md) [c](../../bench/x.py) [d](#here) [e](https://example.org/)",
        "decisions",
    )
    assert Page(page.html).links == ["/help/studies/#two", "/help/0001-a/", "#here", "https://example.org/"]
    assert " c " in page.html and "bench" not in page.html and ">Studies</a>" in page.html and ">b</a>" in page.html


def test_help_shows_html_of_documents_as_text_and_rejects_dangerous_links() -> None:
    page = render("<script>alert(1)</script>\n\n[x](javascript:alert(1)) `<b>` <i>\n\n```\n<u>\n```")
    assert {tag for tag, _ in Page(page.html).elements} == {"p", "code", "pre"}


def test_help_tables_and_code_are_named_and_take_the_focus() -> None:
    page = render("## Two\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n    code\n")
    elements = Page(page.html).elements
    assert [values for tag, values in elements if values.get("tabindex")] == [
        {"class": "tbl-wrap doc__table", "role": "group", "tabindex": "0", "aria-label": "Table 1: Two"},
        {"role": "group", "tabindex": "0", "aria-label": "Code 2: Two"},
    ]
    assert [values for tag, values in elements if tag in ("th", "td")] == [
        {"scope": "col"}, {"scope": "col", "class": "num"}, {}, {"class": "num"}
    ]  # fmt: skip


def test_help_repeated_headings_have_numbered_anchors_as_on_github() -> None:
    page = render("## Same\n\n## Same\n\n### `Other` thing: 2")
    assert page.headings == [
        ("Same", "same", False),
        ("Same", "same-1", False),
        ("Other thing: 2", "other-thing-2", True),
    ]


def test_help_passages_are_headings_paragraphs_rows_and_code() -> None:
    page = render("First *one*.\n\n## Two\n\n| a | b |\n|---|---|\n| x | `y` |\n\n- item\n\n```\ncode\n```")
    assert [(passage.text, passage.anchor, passage.is_heading) for passage in page.passages] == [
        ("Title", "", True), ("First one.", "", False), ("Two", "two", True), ("x: y", "two", False), ("item", "two", False),
        ("code", "two", False),
    ]  # fmt: skip


def test_help_search_finds_headings_first_and_the_place_of_a_term() -> None:
    result = documents.search_documents("washout")
    assert result.total == len(result.matches) > 3
    assert [match.passage.is_heading for match in result.matches] == sorted(
        (match.passage.is_heading for match in result.matches), reverse=True
    )
    texts = next(match for match in result.matches if not match.passage.is_heading)
    assert (texts.document, texts.passage.anchor) == ("glossary", "condition")


def test_help_search_needs_every_word_at_the_beginning_of_a_word() -> None:
    assert documents.search_documents("WETBENCH_URL").total and documents.search_documents("url").total
    both = documents.search_documents("certificate blinding")
    assert both.total and all("ertificate" in match.passage.text for match in both.matches)
    assert documents.search_documents("ertificate").total == 0
    assert documents.search_documents("zebra quarantine lease kappa").total == 0
    assert documents.search_documents(" ").total == 0
    # A pattern of the user is text.
    assert documents.search_documents("(.*)").total == 0


def test_help_search_shows_the_words_in_their_context() -> None:
    patterns = [re.compile("kap"), re.compile("mean")]
    assert documents.cut_at_words("the mean kappa", patterns) == [
        ("the ", False), ("mean", True), (" ", False), ("kap", True), ("pa", False)
    ]  # fmt: skip
    long = documents.cut_at_words(f"{'word ' * 60}kappa {'other ' * 60}", patterns[:1])
    assert long[0] == ("… ", False) and long[2] == ("kap", True) and long[3][0].endswith(" …")
    assert len("".join(text for text, _ in long)) < 260


def test_help_reads_no_file_that_is_not_a_document() -> None:
    assert documents.load_document("../README") is None and documents.load_document("secret") is None
