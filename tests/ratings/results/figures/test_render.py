"""Tests of rendered figures: no links, scripts or styles, and the same bytes each time."""

import json
import re
from xml.etree import ElementTree

import pytest

from ratings.results.figures import render
from ratings.results.figures.render import reorder_pdf
from tests.ratings.results.figures import documents

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {"svg", "g", "path", "line", "rect", "text", "tspan", "title"}


def clean_svg(inner: str, label: str = "a label") -> str:
    root = ElementTree.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="20.50">{inner}</svg>')
    return render.sanitise_svg(root, label)


def test_svg_of_hostile_names_has_only_allowed_elements_and_attributes(trees):
    for key, root in trees.items():
        for element in root.iter():
            assert element.tag.removeprefix(SVG) in ALLOWED, key
            for name, value in element.attrib.items():
                assert not name.startswith("on") and name not in {"style", "class", "id", "href"}, key
                assert ":" not in name and "{" not in name, key
                assert name == "aria-label" or not re.search(r"url|script|;|<|&", value), (key, name, value)


def test_svg_shows_hostile_names_only_as_text(drawn):
    svg = drawn["rates", "wide"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in svg
    assert not re.search("<script|<image|</title><image", svg)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", svg)


def test_svg_replaces_characters_that_xml_does_not_allow():
    spec = {
        "description": "one\x07",
        "data": {"values": [{"a": "bell\x07 nul\x00 none\ufffe half\ud800"}]},
        "mark": {"type": "text", "color": "#000000"},
        "encoding": {"text": {"field": "a", "type": "nominal"}},
        "config": {"view": {"stroke": None}},
    }
    told = json.dumps(
        render._strip_non_xml(spec)
    )  # vl-convert aborts the process on each of these characters, so they must be replaced first
    assert not re.search(r"\\u(0007|0000|fffe|d800)", told) and told.count("\\ufffd") == 5
    assert "bell\ufffd nul\ufffd none\ufffd half\ufffd" in render.render_svg(spec)


def test_svg_is_an_image_with_the_summary_as_its_label(trees):
    root = trees["rates", "narrow"]
    assert root.get("role") == "img"
    assert root.get("aria-label", "").startswith(
        "Rated plausible: <script>alert(1)</script> 87% (156 of 180, 80% to 91%)"
    )


def test_svg_marks_have_titles_with_their_numbers(trees):
    titles = [title.text for title in trees["rates", "wide"].iter(f"{SVG}title")]
    # A bar and a point for each of four sources.
    assert len(titles) == 8
    wanted = (
        "<script>alert(1)</script>: 87% rated plausible, 156 of 180 ratings, 95% interval: 80% to 91%; published: 92%"
    )
    assert titles.count(wanted) == 2


def test_every_svg_has_marks_with_titles(trees):
    silent = [key for key, root in trees.items() if not any(title.text for title in root.iter(f"{SVG}title"))]
    assert silent == []


@pytest.mark.parametrize(
    "inner",
    [
        "<script>alert(1)</script>",
        '<image href="http://example.org/x.png"/>',
        '<a href="javascript:alert(1)"><text>x</text></a>',
        "<foreignObject><p>x</p></foreignObject>",
        "<style>* { fill: red }</style>",
        '<use href="#a"/>',
        '<defs><clipPath id="a"/></defs>',
        '<path d="M0,0h1" fill="url(#a)"/>',
        '<path d="M0,0h1" fill="var(--x)"/>',
        '<g transform="translate(1,1) matrix(1)"><path d="M0,0h1" fill="#000000"/></g>',
    ],
)
def test_svg_with_an_element_or_value_that_is_not_allowed_is_rejected(inner):
    with pytest.raises(ValueError, match=r"allowed in a figure|a figure needs no"):
        clean_svg(inner)


def test_svg_attributes_that_are_not_allowed_are_removed():
    made = clean_svg(
        '<path d="M0,0h1v1Z" fill="#123456" onclick="x()" style="fill:red" id="a" class="b" pointer-events="none"/>'
    )
    assert '<path d="M0,0h1v1Z" fill="#123456" />' in made


def test_svg_label_and_title_are_escaped():
    made = clean_svg('<path d="M0,0h1" stroke="#123456" aria-label="&lt;/title&gt;&lt;b&gt;"/>', label='"><script>')
    root = ElementTree.fromstring(made)
    assert root.get("aria-label") == '"><script>'
    assert [element.tag.removeprefix(SVG) for element in root.iter()] == ["svg", "path", "title"]
    assert next(root.iter(f"{SVG}title")).text == "</title><b>"


def test_svg_omits_invisible_elements_and_rounds_numbers():
    made = clean_svg(
        '<g><g transform="translate(0,0)"/><path d="M0,0h1"/></g><g><line x2="1.23456" y2="-0.0001" stroke="#123456"/></g>'
    )
    assert made.endswith('fill="none"><line x2="1.23" y2="0" stroke="#123456" /></svg>')


def test_svg_merges_adjacent_paths_of_the_same_style():
    cells = "".join(
        f'<path d="M{x},0h1v1Z" fill="{fill}"/>' for x, fill in enumerate(["#111111", "#111111", "#222222"])
    )
    made = clean_svg(f'<g transform="translate(1,1)">{cells}</g>')
    assert '<path d="M0,0h1v1ZM1,0h1v1Z" fill="#111111" /><path d="M2,0h1v1Z" fill="#222222" />' in made


def test_figure_files_are_the_same_bytes_for_the_same_document():
    first, second = (render.render_for_print(documents.study(), "rates") for _ in range(2))
    assert first == second
    assert render.to_pdf(first) == render.to_pdf(second) and render.to_png(first) == render.to_png(second)


def test_pdf_with_several_fonts_is_the_same_each_time():
    svg = render.render_for_print(documents.study(("名前", "GPT-5", "שם", "ชื่อ")), "rates")
    assert len({render.to_pdf(svg) for _ in range(12)}) == 1


def test_pdf_reordering_sorts_objects_and_updates_their_table():
    made = render.to_pdf(render.render_for_print(documents.study(), "rates"))
    # A second pass follows every entry of the table and changes nothing.
    assert reorder_pdf(made) == made
    places = re.findall(rb"(\d{10}) 00000 n", made)
    assert [made[int(place) :].split(b" ")[0] for place in places] == [
        b"%d" % number for number in range(1, len(places) + 1)
    ]
    with pytest.raises(ValueError, match="no table of its objects"):
        reorder_pdf(b"%PDF-1.7\n")


def test_print_figure_is_6_75_inches_wide_with_the_bundled_font():
    svg = render.render_for_print(documents.study(), "rates")
    page, image = render.to_pdf(svg), render.to_png(svg)
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+)", page)
    # 6.75 in of 72 points, within two points
    assert box and abs(float(box[1]) - 486) <= 2
    assert b"LiberationSans" in page and b"DejaVu" not in page
    # 300 pixels per inch: bytes 16 to 19 of a PNG are its width
    assert abs(int.from_bytes(image[16:20]) - 2025) <= 9
