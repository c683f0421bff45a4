"""A document as HTML: anchors, links to other documents, tables and code that scroll by themselves, and its texts for the search."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from wetbench_site.help.anchors import make_anchor
from wetbench_site.help.glossary import split_names

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LISTED_LEVELS = ("h2", "h3")  # headings in the table of contents


class Heading(NamedTuple):
    """A heading with its anchor. `is_sub`: it belongs to the heading above it."""

    text: str
    anchor: str
    is_sub: bool


class Passage(NamedTuple):
    """A heading, paragraph, row of a table or block of code: what the search finds. `anchor` leads to it or to its section."""

    text: str
    anchor: str
    heading: str
    is_heading: bool = False


class LinkedDocument(NamedTuple):
    """A document that others link to."""

    name: str
    title: str


class RenderedDocument(NamedTuple):
    title: str
    html: SafeString
    headings: list[Heading]
    passages: list[Passage]


def render_document(
    text: str, folder: str, linked: Mapping[str, LinkedDocument], has_terms: bool = False
) -> RenderedDocument:
    """Return the document as HTML, without its title.

    `folder` is where its links start, and `linked` has each document by its path, both relative to the folder of all documents. With `has_terms`, the first cell of each row of its tables is a target of links.
    """
    tokens = _get_parser().parse(text)
    title, tokens = tokens[1].content, tokens[3:]
    headings = list(_number_headings(tokens))
    for token in tokens:
        _rewrite_targets(token.children or [], folder, linked)
        _remove_links_outside(token)
    passages = list(_collect_passages(title, tokens, has_terms))
    _label_tables(title, tokens)
    parser = _get_parser()
    # Trusted: markdown-it escapes all text and, without HTML, produces the elements of Markdown alone.
    html = mark_safe(parser.renderer.render(tokens, parser.options, {}))
    listed = [
        Heading(content, anchor, tag != LISTED_LEVELS[0]) for tag, content, anchor in headings if tag in LISTED_LEVELS
    ]
    return RenderedDocument(_get_plain_text(title), html, listed, passages)


@cache
def _get_parser() -> "MarkdownIt":
    # Imported here, because few processes and few requests need it.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    for kind, rule in _RULES.items():
        parser.add_render_rule(kind, rule)
    return parser


def _get_plain_text(markdown: str) -> str:
    return markdown.replace("`", "").replace("*", "")


def _number_headings(tokens: Sequence["Token"]) -> Iterator[tuple[str, str, str]]:
    """Give every heading its anchor; yield its element, text and anchor. A repeated anchor gets a number, as on GitHub."""
    counts: dict[str, int] = {}
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            anchor = make_anchor(content.content)
            number = counts.get(anchor, 0)
            counts[anchor] = number + 1
            token.attrSet("id", anchor if not number else f"{anchor}-{number}")
            yield token.tag, _get_plain_text(content.content), str(token.attrs["id"])


def _rewrite_targets(tokens: Sequence["Token"], folder: str, linked: Mapping[str, LinkedDocument]) -> None:
    """Make links to documents and pictures addresses of the help; mark links that the help cannot follow by an empty address."""
    for token, content in pairwise([*tokens, *tokens[-1:]]):
        if token.type == "image":
            token.attrSet("src", reverse("ratings:help_picture", args=[PurePosixPath(str(token.attrs["src"])).name]))
            token.attrSet("loading", "lazy")
        target = unquote(str(token.attrs.get("href", "#")))
        if "://" in target or target.startswith(("#", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        document = linked.get(_resolve_path(folder, path))
        page = reverse("ratings:help_document", args=[document.name]) if document else ""
        token.attrSet("href", f"{page}#{anchor}" if page and anchor else page)
        # Where the text is the name of the file, readers of the help see its title.
        if document and content.content == PurePosixPath(path).name:
            content.content = document.title


def _resolve_path(folder: str, path: str) -> str:
    """Return the path relative to the folder of all documents; it begins with ".." if it is outside."""
    parts: list[str] = []
    for part in (PurePosixPath(folder) / path).parts:
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _remove_links_outside(token: "Token") -> None:
    """Leave only the text of links to files that the help does not have."""
    is_outside = False
    remaining = []
    for child in token.children or []:
        if child.type == "link_open" and not child.attrs["href"]:
            is_outside = True
        elif child.type == "link_close" and is_outside:
            is_outside = False
        else:
            remaining.append(child)
    if token.children:
        token.children = remaining


def _collect_passages(title: str, tokens: Sequence["Token"], has_terms: bool) -> Iterator[Passage]:
    """Yield the texts of the document in their order. A row of a table is one text."""
    anchor, heading = "", _get_plain_text(title)
    row: list[tuple[str, str]] | None = None
    yield Passage(heading, "", heading, is_heading=True)
    for before, token in pairwise([*tokens[:1], *tokens]):
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            cells = [text for _, text in row or [] if text]
            # The head of a table repeats in every table and explains nothing by itself.
            if row and all(kind == "td_open" for kind, _ in row):
                own_anchor = make_anchor(split_names(cells[0])[0]) if has_terms else anchor
                yield Passage(
                    ": ".join([cells[0], " · ".join(cells[1:])]) if cells[1:] else cells[0], own_anchor, heading
                )
            row = None
        elif token.type in ("fence", "code_block"):
            yield Passage(token.content.strip(), anchor, heading)
        elif token.type == "inline":
            text = _get_text(token)
            if before.type == "heading_open":
                anchor, heading = str(before.attrs["id"]), text
                yield Passage(text, anchor, heading, is_heading=True)
            elif row is not None:
                row.append((before.type, text))
                if has_terms and before.type == "td_open" and len(row) == 1:
                    _mark_terms(token)
            else:
                yield Passage(text, anchor, heading)


def _get_text(token: "Token") -> str:
    """Return what a reader sees of a paragraph, heading or cell."""
    texts = (" " if child.type in ("softbreak", "hardbreak") else child.content for child in token.children or [])
    return "".join(texts).strip()


def _mark_terms(token: "Token") -> None:
    """Make each term in a cell the target of links."""
    from markdown_it.token import Token

    children: list[Token] = []
    for name in split_names(token.content):
        if children:
            children.append(Token("text", "", 0, content=", "))
        opening = Token("span_open", "span", 1, attrs={"id": make_anchor(name)})
        children += [opening, Token("text", "", 0, content=name), Token("span_close", "span", -1)]
    token.children = children


def _label_tables(title: str, tokens: Sequence["Token"]) -> None:
    """Name every table and block of code after its section, for people who do not see where it is."""
    section, number = _get_plain_text(title), 0
    for before, token in pairwise([*tokens[:1], *tokens]):
        if before.type == "heading_open":
            section = _get_plain_text(token.content)
        if token.type in ("table_open", "fence", "code_block"):
            number += 1
            token.meta["label"] = f"{'Table' if token.type == 'table_open' else 'Code'} {number}: {section}"
        # The policy of the site forbids style attributes, by which markdown-it aligns cells.
        if token.type in ("th_open", "td_open") and "right" in str(token.attrs.pop("style", "")):
            token.attrSet("class", "num")
        if token.type == "th_open":
            token.attrSet("scope", "col")


# A group that takes the focus: people without a mouse scroll it with the arrow keys.
def _open_table(self: Any, tokens: Sequence["Token"], index: int, options: Any, env: Any) -> str:
    return f'<div class="tbl-wrap doc__table" role="group" tabindex="0" aria-label="{escape(tokens[index].meta["label"])}"><table class="tbl">\n'


def _close_table(self: Any, tokens: Sequence["Token"], index: int, options: Any, env: Any) -> str:
    return "</table></div>\n"


def _render_code(self: Any, tokens: Sequence["Token"], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    label = escape(token.meta["label"])
    return f'<pre role="group" tabindex="0" aria-label="{label}"><code>{escape(token.content)}</code></pre>\n'


_RULES = {"table_open": _open_table, "table_close": _close_table, "fence": _render_code, "code_block": _render_code}
