"""Specifications into SVG that is safe inside a page, and into PDF and PNG for print.

vl-convert draws without a browser or a network and with its own font; letters that this font lacks (it has Latin, Greek,
Cyrillic and Hebrew) are taken from the host, as far as it has them. What it draws is then rebuilt from an allow-list, element
by element: nothing that refers, runs or styles is left, and no ids, so that many figures fit on one page.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import vl_convert

from ratings.results.figures.pdf import ordered
from ratings.results.figures.theme import FONT, Spec

VL_VERSION = "6.4"
PNG_PPI = 300
_SVG = "http://www.w3.org/2000/svg"
# The attributes an element may keep. All are drawing instructions; none can refer to anything.
_COMMON = frozenset({"fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "transform"})
_ALLOWED: dict[str, frozenset[str]] = {
    "g": _COMMON,
    "path": _COMMON | {"d"},
    "line": _COMMON | {"x1", "y1", "x2", "y2"},
    "rect": _COMMON | {"x", "y", "width", "height"},
    "text": _COMMON | {"text-anchor", "font-size", "font-weight", "dx", "dy"},
    "tspan": frozenset({"x", "y", "dx", "dy"}),
}
# What a value may be: numbers, path letters, #rrggbb, a few words. No parentheses but those of transforms.
_VALUE = re.compile(r"#[0-9a-f]{6}|[A-Za-z0-9 .,+%-]*")
_TRANSFORM = re.compile(r"(?:(?:translate|rotate|scale)\([-0-9.e, ]+\) ?)+")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?|-?\d+e-\d+")
_SAYS_NOTHING = {("opacity", "1"), ("font-weight", "normal"), ("transform", "translate(0,0)"), ("stroke-dasharray", "")}


def svg(spec: Spec) -> str:
    """The drawing as one cleaned <svg> element. Its name for screen readers is the specification's description.

    Marks with a description say it in a <title>. ValueError if the drawing has what the allow-list does not know.
    """
    spec = _drawable(spec)
    drawn: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VL_VERSION, allowed_base_urls=[])
    root = ElementTree.fromstring(drawn)
    return clean(root, label=str(spec.get("description", "")))


def pdf(drawing: str) -> bytes:
    """One page of the drawing's size (its pixels as points), the font embedded; the same bytes each time."""
    return ordered(bytes(vl_convert.svg_to_pdf(drawing)))


def png(drawing: str) -> bytes:
    """The drawing at 300 pixels per inch, its pixels taken as points; the same bytes each time."""
    return bytes(vl_convert.svg_to_png(drawing, ppi=PNG_PPI))


def _drawable(value: Any) -> Any:
    """The specification without the characters that no XML may hold: vl-convert ends the whole process over one."""
    if isinstance(value, str):
        return _NOT_XML.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_drawable(name): _drawable(part) for name, part in value.items()}
    return [_drawable(part) for part in value] if isinstance(value, list | tuple) else value


def clean(root: ElementTree.Element, label: str) -> str:
    """An SVG tree of vl-convert rebuilt from the allow-list, as text. `label` is what it is called."""
    size = {name: _whole(root.get(name, "")) for name in ("width", "height")}
    made = ElementTree.Element("svg", {"xmlns": _SVG, "viewBox": f"0 0 {size['width']} {size['height']}", **size})
    made.attrib |= {"role": "img", "aria-label": label, "font-family": FONT, "fill": "none"}
    for child in root:
        made.extend(list(_cleaned(child)))
    return ElementTree.tostring(made, encoding="unicode")


def _whole(pixels: str) -> str:
    return f"{float(pixels):g}"


def _cleaned(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The element if it is allowed and draws anything; the children of a group that does nothing, in its place."""
    tag = element.tag.removeprefix(f"{{{_SVG}}}")
    if tag in ("defs", "clipPath"):
        raise ValueError(f"a figure needs no <{tag}>; draw without clipping and gradients")
    if tag not in _ALLOWED:
        raise ValueError(f"<{tag}> is not allowed in a figure")
    kept = {name: value for name, value in _attributes(tag, element) if (name, value) not in _SAYS_NOTHING}
    children = [made for child in element for made in _cleaned(child)]
    if tag == "g":
        if not children:
            return
        if not kept or kept == {"fill": "none"}:
            yield from children
            return
    elif not _draws(tag, kept, element.text):
        return
    made = ElementTree.Element(tag, kept)
    said = element.get("aria-label")
    if said and tag != "g":
        ElementTree.SubElement(made, "title").text = said
    if tag in ("text", "tspan"):
        made.text = element.text
    made.extend(_joined(children) if tag == "g" else children)
    yield made


def _attributes(tag: str, element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for name, value in element.attrib.items():
        if name not in _ALLOWED[tag] or value in ("none", "transparent"):
            continue
        found = _LONG_NUMBER.sub(_shorter, value)
        if not (_TRANSFORM if name == "transform" else _VALUE).fullmatch(found):
            raise ValueError(f"{name}={value!r} is not allowed in a figure")
        yield name, found.removesuffix("px") if name == "font-size" else found


def _shorter(number: re.Match[str]) -> str:
    """A hundredth of a pixel is as fine as anyone can see."""
    return f"{round(float(number[0]), 2) + 0.0:g}"


def _draws(tag: str, kept: dict[str, str], text: str | None) -> bool:
    if tag in ("text", "tspan"):
        return bool(text) or tag == "text"
    if kept.get("opacity") == "0":
        return False
    return ("fill" in kept or "stroke" in kept) and kept.get("d") != ""


def _joined(children: list[ElementTree.Element]) -> list[ElementTree.Element]:
    """Neighbouring paths that look alike and say nothing as one: a matrix of thousands of cells stays small."""
    made: list[ElementTree.Element] = []
    for child in children:
        if made and _alike(made[-1], child):
            made[-1].set("d", made[-1].attrib["d"] + child.attrib["d"])
        else:
            made.append(child)
    return made


def _alike(one: ElementTree.Element, other: ElementTree.Element) -> bool:
    if one.tag != "path" or other.tag != "path" or len(one) or len(other) or "transform" in one.attrib:
        return False
    return all(one.get(name) == other.get(name) for name in (set(one.attrib) | set(other.attrib)) - {"d"})
