"""What raters and strangers are sent: searched for what is sealed, and compared with what they would be sent if every
item had another origin."""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

from ratings.models import Assignment, Item, ItemSource, Study
from ratings.studies.blinding_audit.crawl.pages import Page, Place, steadied
from ratings.studies.blinding_audit.crawl.timing import Times, check
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.sealed import Sealed, has_word, interface_words
from ratings.studies.pool import quarantine

_NUMBER = re.compile(r"(?<![0-9A-Za-z-])[0-9]{1,12}(?![0-9A-Za-z-])")
_FORBIDDEN = ("etag", "last-modified", "server-timing", "x-debug", "x-powered-by", "x-runtime")
_BENIGN = ("the word", "the source", "the error type")


class Responses:
    """Gathers the checks of everything that is sent, page by page; no page is kept."""

    def __init__(self, study: Study, sealed: Sealed) -> None:
        self.study, self.sealed = study, sealed
        self.shown = _Shown(study)
        self.words = Check(
            "sent words", "Does a page, fragment, file, header or address tell a source, an error or a secret?"
        )
        self.worlds = Check(
            "another origin", "Would anything that is sent differ if every item had come from somewhere else?"
        )
        self.headers = Check("headers", "Are headers the same for every item, uncached, and free of marks?")
        self.numbers = Check("database numbers", "Does an address or attribute show a row's number?")
        self.doors = Check("closed doors", "Is an item that is not one's own answered like one that does not exist?")
        self.answers = Check("answers", "Does every page answer, and none with a fault of the site?")
        self._values: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._names: dict[tuple[str, int], set[frozenset[str]]] = defaultdict(set)
        self._slots: dict[tuple[str, str], list[tuple[int, Page]]] = defaultdict(list)
        self.times = Times()

    def checks(self) -> list[Check]:
        self.headers.leaks += self._uneven_headers()
        self.numbers.leaks += self._telling_numbers()
        timing = check(self.study, self.times)
        return [self.words, self.worlds, self.headers, self.numbers, self.doors, self.answers, timing]

    def see(self, page: Page) -> None:
        """Look at one answer by itself."""
        where = page.label
        self.words.saw(self.told(page))
        self.answers.saw([Leak(where, f"answered {page.status}")] if not _as_expected(page) else [])
        kind = f"{page.label}, {page.status}"
        self.answers.measured[kind] = self.answers.measured.get(kind, 0) + 1
        self._note_headers(page)
        self._note_numbers(page)

    def compare(self, one: Page, other: Page) -> None:
        """The same request in two worlds: all but tokens, codes and the clock has to be the same."""
        self.worlds.looked_at += 1
        if one.steady() != other.steady():
            told = _difference(one.steady(), other.steady())
            self.worlds.leaks.append(Leak(one.label, f"{told} depends on where the item came from"))

    # What is told

    def told(self, page: Page) -> Iterator[Leak]:
        """What of the sealed the page tells, but for words that the study itself or an item's payload says."""
        places = list(page.places())
        hits = list(self.sealed.told_in("\n".join(place.text for place in places)))
        for what, told in hits:
            for place in places:
                if _says(place.text, what, told) and not self._innocent(page, place, what, told):
                    yield Leak(f"{page.label}, {place.where}", f"{what}: {told[:60]!r}")

    def _innocent(self, page: Page, place: Place, what: str, told: str) -> bool:
        """Words of the study's own texts and of the items' payloads; these are looked at for themselves."""
        attribute = place.where.startswith(
            ("attribute class", "attribute id", "attribute data-", "header", "the address")
        )
        if attribute or what not in _BENIGN:
            return not attribute and self.shown.holds(place.text, told)
        return self.shown.holds(place.text, told) or (page.is_html and page.item == 0 and told in interface_words())

    # Headers

    def _note_headers(self, page: Page) -> None:
        for name in page.headers:
            if name.lower().startswith(_FORBIDDEN):
                self.headers.leaks.append(Leak(page.label, f"header {name}"))
        if not page.item:
            return
        self.headers.looked_at += 1
        if page.status < 400 and "no-store" not in page.headers.get("Cache-Control", ""):
            self.headers.leaks.append(Leak(page.label, "header Cache-Control does not say no-store"))
        cookies = {f"Set-Cookie {cookie.partition('=')[0]}" for cookie in page.cookies}
        self._names[page.label, page.status].add(frozenset(page.headers) | cookies)
        for name, value in page.headers.items():
            if name.lower() not in ("content-length", "set-cookie"):
                self._values[page.label, page.status, name].add(steadied(value))

    def _uneven_headers(self) -> Iterator[Leak]:
        for (label, _), sets in self._names.items():
            if len(sets) > 1:
                uneven = sorted(frozenset.union(*sets) - frozenset.intersection(*sets))
                yield Leak(label, f"header {', '.join(uneven)} is sent with some items only")
        for (label, _, name), values in self._values.items():
            if len(values) > 1:
                shown = ", ".join(sorted(values)[:3])
                yield Leak(label, f"header {name} differs between items: {shown[:80]}")

    # Numbers of rows

    def _note_numbers(self, page: Page) -> None:
        if not page.item or page.status >= 400:
            return
        for name, text in self._numbered(page):
            for at, match in enumerate(_NUMBER.finditer(text)):
                self._slots[name, f"{_NUMBER.sub('#', text)[:120]} ({at})"].append((int(match[0]), page))
        self.numbers.looked_at += 1

    def _numbered(self, page: Page) -> Iterator[tuple[str, str]]:
        for link in page.links():
            parts = urlsplit(link)
            yield "an address", steadied(parts.path)
            yield from (("an address", f"?{name}={value}") for name, value in parse_qsl(parts.query))
        yield "the address", steadied(page.url)
        yield from (
            ((p.where, steadied(p.text)) for p in page.read.places if p.where.startswith("attribute"))
            if page.is_html
            else ()
        )

    def _telling_numbers(self) -> Iterator[Leak]:
        """A number that is a row's in every page that has it, over at least three different rows."""
        rows = _rows(self.study)
        for (where, pattern), seen in self._slots.items():
            for what, of in rows.items():
                expected = [of.get(page.item if what != "assignment" else page.assignment) for _, page in seen]
                if len(set(expected)) >= 3 and expected == [number for number, _ in seen]:
                    yield Leak(where, f"the number of the {what}'s row (pk) in {pattern[:80]!r}")
                    break


_ANSWERS = {  # of requests that must be served for anything to have been looked at
    **dict.fromkeys(("item", "item fragment", "item answered", "item, second look", "answer", "own ratings"), 200),
    **dict.fromkeys(("item, HEAD", "last page", "last page, finished"), 200),
    **dict.fromkeys(("plain answer", "plain final answer", "finish"), 303),
    "draft": 204,
}


def _as_expected(page: Page) -> bool:
    """No fault of the site; and items are really shown, or the audit would have looked at nothing."""
    expected = _ANSWERS.get(page.label)
    return page.status == expected if expected else page.status < 500


class _Shown:
    """Texts that raters may read: payloads, contexts, and what the study itself says."""

    def __init__(self, study: Study) -> None:
        said = [study.protocol.get(name) for name in ("consent", "contact")]
        texts = {study.name, study.question, study.guide, *(text for _, text in quarantine.texts(said))}
        for payload, context in Item.objects.filter(study=study).values_list("payload", "context").iterator():
            texts |= {text for _, text in [*quarantine.texts(payload), *quarantine.texts(context)]}
        self._lines = {" ".join(text.lower().split()) for text in texts if text}

    def holds(self, text: str, word: str) -> bool:
        """Whether the word stands there as part of a text that raters may read."""
        low = " ".join(text.lower().split())
        mine = [line for line in self._lines if word in line]
        return any(low in line for line in mine) or not self._left(low, mine, word)

    def _left(self, low: str, lines: Iterable[str], word: str) -> bool:
        for line in sorted(lines, key=len, reverse=True):
            low = low.replace(line, " ")
        return word in low if not word.isalpha() else has_word(low, word)


def _says(text: str, what: str, told: str) -> bool:
    low = text.lower()
    return told in low and (what == "the word" or not told.isalpha() or has_word(low, told))


def _rows(study: Study) -> dict[str, dict[int, int | None]]:
    sources = list(
        ItemSource.objects.filter(item__study=study).values_list(
            "item_id", "pk", "transition_id", "twin_id", "imported_id"
        )
    )
    places = Assignment.objects.filter(rater__study=study).values_list("pk", flat=True)
    return {
        "item": {item: item for item, *_ in sources},
        "assignment": {pk: pk for pk in places},
        "source": {item: source for item, source, *_ in sources},
        "transition": {item: step for item, _, step, *_ in sources},
        "twin": {item: twin for item, _, _, twin, _ in sources if twin},
        "imported item": {item: imported for item, _, _, _, imported in sources if imported},
    }


def _difference(one: Sequence[str], other: Sequence[str]) -> str:
    """The first piece that is not the same, in a few words."""
    match = difflib.SequenceMatcher(None, one, other, autojunk=False)
    for kind, a, b, c, d in match.get_opcodes():
        if kind != "equal":
            told = " ".join(one[a:b]).strip()[:100] or "nothing", " ".join(other[c:d]).strip()[:100] or "nothing"
            return f"{told[0]!r} (otherwise {told[1]!r})"
    return "the order"
