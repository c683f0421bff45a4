"""Reorder the objects of a PDF, because vl-convert writes fonts in a different order each time."""

import re

_XREF = re.compile(rb"startxref\s+(\d+)\s+%%EOF\s*$")
_ENTRY = re.compile(rb"(\d{10}) \d{5} n")
_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_REFERENCE = re.compile(rb"\b(\d+) 0 R\b")
_FONTS = re.compile(rb"(/Font <<\n)((?:\s*/\w+ \d+ 0 R\n)+)")


def reorder_pdf(pdf: bytes) -> bytes:
    """Return the same document with objects numbered in the order of reference, starting from the catalogue.

    Entries of font tables are sorted by name. Raises ValueError for a file that is not in vl-convert's simple form.
    """
    start = _XREF.search(pdf)
    if start is None:
        raise ValueError("this PDF has no table of its objects")
    table = int(start[1])
    trailer = pdf[pdf.index(b"trailer", table) : start.start()]
    objects = _parse_objects(pdf, table)
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
