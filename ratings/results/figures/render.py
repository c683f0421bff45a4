"""Render specifications as SVG that is safe inside a page, and as PDF and PNG for print.

vl-convert renders without a browser or a network and with its own font; characters that this font lacks (it has Latin, Greek,
Cyrillic and Hebrew) are taken from the host if available. The result is rebuilt from an allow-list, element
by element: nothing that refers, runs or styles remains, and no ids, so that many figures fit on one page.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import vl_convert

from ratings.results.figures.drawing_process import RenderedFigure
from ratings.results.figures.file_metadata import add_pdf_metadata, add_png_metadata
from ratings.results.figures.registry import FIGURES, FileLabel
from ratings.results.figures.tables import Document
from ratings.results.figures.theme import FONT, Spec

SCREEN_SIZES = ("wide", "narrow")  # print sizes are rendered on request
# Loaded here, so that a missing drawing is an error when this module is imported.
DRAWINGS = {name: figure.drawing for name, figure in FIGURES.items()}

_XREF = re.compile(rb"startxref\s+(\d+)\s+%%EOF\s*$")
_ENTRY = re.compile(rb"(\d{10}) \d{5} n")
_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_REFERENCE = re.compile(rb"\b(\d+) 0 R\b")
_FONTS = re.compile(rb"(/Font <<\n)((?:\s*/\w+ \d+ 0 R\n)+)")

VL_VERSION = "6.4"  # fixed: another version of Vega-Lite may draw the same specification differently
PNG_PPI = 300
_SVG = "http://www.w3.org/2000/svg"
# Allowed attributes per element. All are drawing instructions; none can refer to anything.
_COMMON = frozenset({"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "transform"})
_ALLOWED: dict[str, frozenset[str]] = {
    "g": _COMMON,
    "path": _COMMON | {"d"},
    "line": _COMMON | {"x1", "y1", "x2", "y2"},
    "rect": _COMMON | {"x", "y", "width", "height"},
    "text": _COMMON | {"text-anchor", "font-size", "font-weight", "dx", "dy"},
    "tspan": frozenset({"x", "y", "dx", "dy"}),
}
# Allowed values: numbers, path letters, #rrggbb, a few words. Parentheses only in transforms. No quotes, colons or
# slashes, so a value cannot contain a URL or a style.
_VALUE = re.compile(r"#[0-9a-f]{6}|[A-Za-z0-9 .,+%-]*")
_TRANSFORM = re.compile(r"(?:(?:translate|rotate|scale)\([-0-9.e, ]+\) ?)+")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?|-?\d+e-\d+")
_DEFAULT_ATTRIBUTES = {
    ("opacity", "1"),
    ("font-weight", "normal"),
    ("transform", "translate(0,0)"),
    ("stroke-dasharray", ""),
}


def render_all(document: Document) -> Iterator[RenderedFigure]:
    """Yield every figure that the document has data for, wide and narrow, in the order of FIGURES."""
    for figure in FIGURES.values():
        if figure.has_data(document):
            for profile in SCREEN_SIZES:
                spec = figure.build_spec(document, profile)
                yield RenderedFigure(figure.name, profile, render_svg(spec), str(spec["description"]))


def render_for_print(document: Document, name: str) -> str:
    """Return one figure in print size as SVG, for to_pdf and to_png."""
    return render_svg(FIGURES[name].build_spec(document, "print"))


def render_svg(spec: Spec) -> str:
    """Return the drawing as one sanitised <svg> element, labelled with the specification's description.

    Marks with a description get a <title>. Raises ValueError if the drawing contains anything outside the allow-list.
    """
    spec = _strip_non_xml(spec)
    # No base URL is allowed, so a specification cannot load anything.
    raw_svg: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VL_VERSION, allowed_base_urls=[])
    root = ElementTree.fromstring(raw_svg)
    # Pages scale a drawing to the room it has; drawings of a size are equally wide, so that their letters are equally large.
    width = max(float(root.get("width", "0")), spec.get("usermeta", {}).get("width", 0))
    for element in (root, *root.findall(f"{{{_SVG}}}rect")):  # and its background
        element.set("width", f"{width:g}")
    return sanitise_svg(root, label=str(spec.get("description", "")))


def to_pdf(drawing: str, label: FileLabel | None = None) -> bytes:
    """Return a PDF page, one point per pixel, with the font embedded; equal input gives equal bytes."""
    return reorder_pdf(bytes(vl_convert.svg_to_pdf(drawing)), label)


def to_png(drawing: str, label: FileLabel | None = None) -> bytes:
    """Return a PNG at 300 pixels per inch, one point per pixel of the drawing; equal input gives equal bytes."""
    png = bytes(vl_convert.svg_to_png(drawing, ppi=PNG_PPI))
    return add_png_metadata(png, label) if label else png


def _strip_non_xml(value: Any) -> Any:
    """Return the specification without characters that XML forbids; vl-convert would abort the process."""
    if isinstance(value, str):
        return _NOT_XML.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_strip_non_xml(name): _strip_non_xml(part) for name, part in value.items()}
    return [_strip_non_xml(part) for part in value] if isinstance(value, list | tuple) else value


def sanitise_svg(root: ElementTree.Element, label: str) -> str:
    """Return vl-convert's SVG tree rebuilt from the allow-list, as text. `label` is its accessible name."""
    size = {name: f"{float(root.get(name, '')):g}" for name in ("width", "height")}
    rebuilt = ElementTree.Element("svg", {"xmlns": _SVG, "viewBox": f"0 0 {size['width']} {size['height']}", **size})
    # `fill: none` is inherited, so that paths without a fill do not become black.
    rebuilt.attrib |= {"role": "img", "aria-label": label, "font-family": FONT, "fill": "none"}
    for child in root:
        rebuilt.extend(list(_sanitise_element(child)))
    return ElementTree.tostring(rebuilt, encoding="unicode")


def _sanitise_element(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield the element if it is allowed and draws something; for a group without effect, its children."""
    tag = element.tag.removeprefix(f"{{{_SVG}}}")
    # Clip paths and gradients refer to an id, and ids of two figures on a page can collide.
    if tag in ("defs", "clipPath"):
        raise ValueError(f"a figure needs no <{tag}>; draw without clipping and gradients")
    if tag not in _ALLOWED:
        raise ValueError(f"<{tag}> is not allowed in a figure")
    attributes = {
        name: value for name, value in _iter_attributes(tag, element) if (name, value) not in _DEFAULT_ATTRIBUTES
    }
    children = [made for child in element for made in _sanitise_element(child)]
    if tag == "g":
        if not children:
            return
        if not attributes or attributes == {"fill": "none"}:
            yield from children
            return
    elif not _is_visible(tag, attributes, element.text, bool(children)):
        return
    made = ElementTree.Element(tag, attributes)
    # Vega-Lite writes the description of a mark as aria-label; a title is also displayed when the pointer rests on it.
    title_text = element.get("aria-label")
    if title_text and tag != "g":
        ElementTree.SubElement(made, "title").text = title_text
    if tag in ("text", "tspan"):
        made.text = element.text
    made.extend(_merge_paths(children) if tag == "g" else children)
    yield made


def _iter_attributes(tag: str, element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for name, value in element.attrib.items():
        if name not in _ALLOWED[tag] or value in ("none", "transparent"):
            continue
        shortened = _LONG_NUMBER.sub(_round_number, value)
        # An unexpected value raises an error and is not simply removed, because a figure without it could be wrong.
        if not (_TRANSFORM if name == "transform" else _VALUE).fullmatch(shortened):
            raise ValueError(f"{name}={value!r} is not allowed in a figure")
        yield name, shortened.removesuffix("px") if name == "font-size" else shortened


def _round_number(number: re.Match[str]) -> str:
    return f"{round(float(number[0]), 2) + 0.0:g}"  # + 0.0 turns a negative zero into zero


def _is_visible(tag: str, attributes: dict[str, str], text: str | None, has_spans: bool) -> bool:
    if tag in ("text", "tspan"):
        return bool(text) or has_spans
    if attributes.get("opacity") == "0":
        return False
    return ("fill" in attributes or "stroke" in attributes) and attributes.get("d") != ""


def _merge_paths(children: list[ElementTree.Element]) -> list[ElementTree.Element]:
    """Merge neighbouring paths with equal attributes and no title, so that a matrix of thousands of cells stays small."""
    merged: list[ElementTree.Element] = []
    for child in children:
        if merged and _has_same_style(merged[-1], child):
            # Two paths in one "d" are drawn as one; only the title would distinguish them.
            merged[-1].set("d", merged[-1].attrib["d"] + child.attrib["d"])
        else:
            merged.append(child)
    return merged


def _has_same_style(one: ElementTree.Element, other: ElementTree.Element) -> bool:
    # A title or a transform belongs to one path alone.
    if one.tag != "path" or other.tag != "path" or len(one) or len(other) or "transform" in one.attrib:
        return False
    return all(one.get(name) == other.get(name) for name in (set(one.attrib) | set(other.attrib)) - {"d"})


def reorder_pdf(pdf: bytes, label: FileLabel | None = None) -> bytes:
    """Return the same document with objects numbered in the order of reference, starting from the catalogue.

    Entries of font tables are sorted by name; a label becomes the document's metadata. Raises ValueError for a file that is not in vl-convert's simple form.
    """
    start = _XREF.search(pdf)
    if start is None:
        raise ValueError("this PDF has no table of its objects")
    table = int(start[1])
    trailer = pdf[pdf.index(b"trailer", table) : start.start()]
    objects = _parse_objects(pdf, table)
    if label:
        add_pdf_metadata(trailer, objects, label)
    order: dict[int, int] = {}
    # Depth first, with the references reversed on the stack, so that objects are numbered in the order of the text.
    waiting = [int(number) for number in reversed(_REFERENCE.findall(trailer))]
    while waiting:
        number = waiting.pop()
        if number not in order:
            order[number] = len(order) + 1
            waiting += [int(other) for other in reversed(_REFERENCE.findall(objects[number][0]))]
    return _write_pdf(pdf[: pdf.index(b"\n", pdf.index(b"\n") + 1) + 1], objects, order, trailer)


def _parse_objects(pdf: bytes, table: int) -> dict[int, tuple[bytes, bytes]]:
    """Return each object's dictionary and, from the word stream on, the rest."""
    # The length of an object is not stored; it ends where the next one begins.
    places = sorted(int(place) for place in _ENTRY.findall(pdf, table))
    objects = {}
    for place, end in zip(places, [*places[1:], table], strict=True):
        head = _OBJECT.match(pdf, place)
        if head is None:
            raise ValueError("the table of this PDF's objects is wrong")
        # Only the dictionary has references; the compressed stream could contain the same bytes by chance.
        body, _, stream = pdf[head.end() : end].partition(b"\nstream\n")
        objects[int(head[1])] = (_FONTS.sub(_sort_fonts, body), b"\nstream\n" + stream if stream else b"")
    return objects


def _sort_fonts(fonts: re.Match[bytes]) -> bytes:
    return fonts[1] + b"".join(sorted(fonts[2].splitlines(keepends=True)))


def _write_pdf(head: bytes, objects: dict[int, tuple[bytes, bytes]], order: dict[int, int], trailer: bytes) -> bytes:
    def renumber(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda found: b"%d 0 R" % order[int(found[1])], text)

    output, places = bytearray(head), []
    for old, new in order.items():
        places.append(len(output))
        body, stream = objects[old]
        output += b"%d 0 obj\n" % new + renumber(body) + stream
    start = len(output)
    # Each entry of this table must be exactly 20 bytes long, hence CR LF.
    output += b"xref\n0 %d\n0000000000 65535 f\r\n" % (len(order) + 1)
    output += b"".join(b"%010d 00000 n\r\n" % place for place in places)
    trailer = re.sub(rb"/Size \d+", b"/Size %d" % (len(order) + 1), renumber(trailer))
    return bytes(output + trailer.rstrip() + b"\nstartxref\n%d\n%%%%EOF\n" % start)
