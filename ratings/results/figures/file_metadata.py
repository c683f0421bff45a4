"""Titles, subjects and filters in the metadata of figure files, where file managers, browsers and reference managers read them.

This module imports no plotting library, because web processes send SVG files.
"""

import re
import zlib
from xml.sax.saxutils import escape

from ratings.results.figures.registry import FileLabel
from ratings.results.figures.tables import wrap_text

_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)" width="[\d.]+" height="[\d.]+"')
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_FONT_SIZE, _LINE = 12.5, 18  # of the caption of a filtered figure, in pixels
_INFO = re.compile(rb"/Info (\d+) 0 R")
_PNG_HEADER_END = 33  # bytes: the signature and the chunk IHDR


def build_svg_file(svg: str, label: FileLabel | None = None) -> str:
    """Return a drawing as the content of an SVG file, with a white background as on a light page.

    With a label, the file has a title and metadata (Dublin Core); with filters, also a visible caption above the drawing.
    """
    head, _, remainder = svg.partition(">")
    caption = metadata = ""
    if label:
        metadata = _build_svg_metadata(label)
    if label and label.filter_text and (size := _SIZE.search(head)):
        width, height = float(size[1]), float(size[2])
        lines = [label.title, *wrap_text(label.filter_text, width, _FONT_SIZE, most=4)]
        top = _LINE * len(lines) + 8
        head = head.replace(
            size[0], f'viewBox="0 -{top} {width:g} {height + top:g}" width="{width:g}" height="{height + top:g}"'
        )
        styles = [' font-weight="bold"', *[""] * (len(lines) - 1)]
        caption = "".join(
            f'<text x="0" y="{_LINE * place - top + _FONT_SIZE + 2:g}" font-size="{_FONT_SIZE}" fill="#16202c"{style}>{_escape(line)}</text>'
            for place, (line, style) in enumerate(zip(lines, styles, strict=True))
        )
        background = f'<rect y="-{top}" width="100%" height="100%" fill="#ffffff" />'
    else:
        # Inline drawings are transparent, to suit light and dark pages; a file needs its own background.
        background = '<rect width="100%" height="100%" fill="#ffffff" />'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}>{metadata}{background}{caption}{remainder}\n'


def _build_svg_metadata(label: FileLabel) -> str:
    # For programs that read metadata; browsers and screen readers read the title.
    title, subject, filter_text = (_escape(text) for text in (label.full_title, label.subject, label.filter_text))
    description = f"<dc:description>{filter_text}</dc:description>" if filter_text else ""
    return (
        f"<title>{title}</title>"
        '<metadata><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Description>'
        f"<dc:title>{title}</dc:title><dc:subject>{subject}</dc:subject>{description}"
        "</rdf:Description></rdf:RDF></metadata>"
    )


def _escape(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def add_pdf_metadata(trailer: bytes, objects: dict[int, tuple[bytes, bytes]], label: FileLabel) -> None:
    """Add title, subject and filters to the information dictionary among the objects of a PDF. ValueError: it has none."""
    info = _INFO.search(trailer)
    if info is None:
        raise ValueError("this PDF has no information dictionary")
    entries = {"Title": label.full_title, "Subject": label.subject, "Keywords": label.filter_text}
    text = b"".join(b"  /%s <%s>\n" % (name.encode(), _encode_pdf(value)) for name, value in entries.items() if value)
    body, stream = objects[int(info[1])]
    objects[int(info[1])] = (body.replace(b"<<\n", b"<<\n" + text, 1), stream)


def _encode_pdf(text: str) -> bytes:
    return ("\ufeff" + text).encode("utf-16-be", "replace").hex().upper().encode()


def add_png_metadata(png: bytes, label: FileLabel) -> bytes:
    """Return the image with title, subject and filters as text chunks in UTF-8."""
    entries = {"Title": label.full_title, "Subject": label.subject, "Description": label.filter_text}
    chunks = b"".join(
        _build_chunk(b"iTXt", name.encode() + bytes(5) + value.encode("utf-8", "replace"))
        for name, value in entries.items()
        if value
    )
    return png[:_PNG_HEADER_END] + chunks + png[_PNG_HEADER_END:]


def _build_chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)
