"""Checks of what raters and strangers are sent: a search for sealed values, and a comparison with what they would be
sent if every item had another origin.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

from ratings.models import Assignment, Item, ItemSource, Study
from ratings.studies.blinding_audit.crawl.pages import LocatedText, Page, remove_changing_parts
from ratings.studies.blinding_audit.crawl.timing import RequestTimes, check_timing
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.sealed_values import SealedValues, contains_word, load_interface_words
from ratings.studies.pool import quarantine

_NUMBER = re.compile(r"(?<![0-9A-Za-z-])[0-9]{1,12}(?![0-9A-Za-z-])")
_FORBIDDEN = ("etag", "last-modified", "server-timing", "x-debug", "x-powered-by", "x-runtime")
_BENIGN = ("the word", "the source", "the error type")


class ResponseChecks:
    """Collects the checks of everything that is sent, page by page; no page is stored."""

    def __init__(self, study: Study, sealed: SealedValues) -> None:
        self.study, self.sealed = study, sealed
        self.shown = _ReadableTexts(study)
        self.words = Check("sent words", "Does anything sent to raters reveal a source, an error or a secret?")
        self.worlds = Check("another origin", "Would anything sent to raters differ if every item had another origin?")
        self.headers = Check(
            "headers", "Are headers the same for every item, without caching, and free of identifying values?"
        )
        self.numbers = Check("database numbers", "Does a URL or attribute show the number of a database row?")
        self.doors = Check("closed doors", "Is an item of another rater answered like one that does not exist?")
        self.answers = Check("answers", "Does every page answer, and none with an error of the site?")
        self._values: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._names: dict[tuple[str, int], set[frozenset[str]]] = defaultdict(set)
        self._slots: dict[tuple[str, str], list[tuple[int, Page]]] = defaultdict(list)
        self.times = RequestTimes()

    def list_checks(self) -> list[Check]:
        self.headers.leaks += self._find_uneven_headers()
        self.numbers.leaks += self._find_row_numbers()
        timing = check_timing(self.study, self.times)
        return [self.words, self.worlds, self.headers, self.numbers, self.doors, self.answers, timing]

    def inspect_page(self, page: Page) -> None:
        """Check a single answer, without comparing it with others."""
        location = page.label
        self.words.add_leaks(self.find_sealed_words(page))
        self.answers.add_leaks([Leak(location, f"answered {page.status}")] if not _is_expected(page) else [])
        kind = f"{page.label}, {page.status}"
        self.answers.measured[kind] = self.answers.measured.get(kind, 0) + 1
        self._collect_headers(page)
        self._collect_numbers(page)

    def compare_pages(self, page: Page, paired_page: Page) -> None:
        """Compare the answers to one request with true and with swapped sources: all but tokens, codes and times must
        be equal.
        """
        self.worlds.looked_at += 1
        if page.split_stable_parts() != paired_page.split_stable_parts():
            difference = _describe_difference(page.split_stable_parts(), paired_page.split_stable_parts())
            self.worlds.leaks.append(Leak(page.label, f"{difference} depends on where the item came from"))

    # Sealed values

    def find_sealed_words(self, page: Page) -> Iterator[Leak]:
        """Yield the sealed values on the page, except words that the study itself or an item's payload contains."""
        located_texts = list(page.iter_texts())
        # One search of the joined text first: most pages contain nothing, and searching each text takes longer.
        matches = list(self.sealed.find_in("\n".join(located.text for located in located_texts)))
        for kind, value in matches:
            for located in located_texts:
                if _mentions_value(located.text, kind, value) and not self._is_allowed_text(page, located, kind, value):
                    yield Leak(f"{page.label}, {located.location}", f"{kind}: {value[:60]!r}")

    def _is_allowed_text(self, page: Page, located: LocatedText, kind: str, value: str) -> bool:
        """Return whether the value is part of the study's own texts or of an item's payload, which are checked
        separately.
        """
        # Raters do not read these attributes, headers and URLs, so the study's texts are no reason for a value to be
        # there.
        attribute = located.location.startswith(
            ("attribute class", "attribute id", "attribute data-", "header", "the address")
        )
        if attribute or kind not in _BENIGN:
            return not attribute and self.shown.contains_word(located.text, value)
        return self.shown.contains_word(located.text, value) or (
            page.is_html and page.item == 0 and value in load_interface_words()
        )

    # Headers

    def _collect_headers(self, page: Page) -> None:
        for name in page.headers:
            if name.lower().startswith(_FORBIDDEN):
                self.headers.leaks.append(Leak(page.label, f"header {name}"))
        if not page.item:
            return
        self.headers.looked_at += 1
        if page.status < 400 and "no-store" not in page.headers.get("Cache-Control", ""):
            self.headers.leaks.append(Leak(page.label, "header Cache-Control lacks no-store"))
        cookies = {f"Set-Cookie {cookie.partition('=')[0]}" for cookie in page.cookies}
        self._names[page.label, page.status].add(frozenset(page.headers) | cookies)
        for name, value in page.headers.items():
            if name.lower() not in ("content-length", "set-cookie"):
                self._values[page.label, page.status, name].add(remove_changing_parts(value))

    def _find_uneven_headers(self) -> Iterator[Leak]:
        for (label, _), sets in self._names.items():
            if len(sets) > 1:
                uneven_names = sorted(frozenset.union(*sets) - frozenset.intersection(*sets))
                yield Leak(label, f"header {', '.join(uneven_names)} is sent with some items only")
        for (label, _, name), values in self._values.items():
            if len(values) > 1:
                examples = ", ".join(sorted(values)[:3])
                yield Leak(label, f"header {name} differs between items: {examples[:80]}")

    # Numbers of rows

    def _collect_numbers(self, page: Page) -> None:
        if not page.item or page.status >= 400:
            return
        for name, text in self._iter_numbered_texts(page):
            for index, match in enumerate(_NUMBER.finditer(text)):
                self._slots[name, f"{_NUMBER.sub('#', text)[:120]} ({index})"].append((int(match[0]), page))
        self.numbers.looked_at += 1

    def _iter_numbered_texts(self, page: Page) -> Iterator[tuple[str, str]]:
        for link in page.list_links():
            parts = urlsplit(link)
            yield "an address", remove_changing_parts(parts.path)
            yield from (("an address", f"?{name}={value}") for name, value in parse_qsl(parts.query))
        yield "the address", remove_changing_parts(page.url)
        yield from (
            (
                (p.location, remove_changing_parts(p.text))
                for p in page.parsed_html.places
                if p.location.startswith("attribute")
            )
            if page.is_html
            else ()
        )

    def _find_row_numbers(self) -> Iterator[Leak]:
        """Yield a leak for each place whose number is the key of a database row on every page, for at least three
        different rows.
        """
        rows = _load_row_numbers(self.study)
        for (location, pattern), numbered_pages in self._slots.items():
            for kind, row_of_item in rows.items():
                expected = [
                    row_of_item.get(page.item if kind != "assignment" else page.assignment)
                    for _, page in numbered_pages
                ]
                # With fewer rows a count or a position may be equal to a row's number by chance.
                if len(set(expected)) >= 3 and expected == [number for number, _ in numbered_pages]:
                    yield Leak(location, f"the number of the {kind}'s row (pk) in {pattern[:80]!r}")
                    break


_EXPECTED_STATUS = {  # expected statuses of requests that must succeed, or the audit would have examined nothing
    **dict.fromkeys(("item", "item fragment", "item answered", "item, second look", "answer", "own ratings"), 200),
    **dict.fromkeys(("item, HEAD", "last page", "last page, finished"), 200),
    **dict.fromkeys(("plain answer", "plain final answer", "finish"), 303),
    "draft": 204,
}


def _is_expected(page: Page) -> bool:
    """Return whether the page has the status that its request must have or, for other requests, is no error of the
    site.
    """
    expected = _EXPECTED_STATUS.get(page.label)
    return page.status == expected if expected else page.status < 500


class _ReadableTexts:
    """Texts that raters may read: payloads, contexts, and the study's own texts."""

    def __init__(self, study: Study) -> None:
        consent_texts = [study.protocol.get(name) for name in ("consent", "contact")]
        texts = {study.name, study.question, study.guide, *(text for _, text in quarantine.iter_texts(consent_texts))}
        for payload, context in Item.objects.filter(study=study).values_list("payload", "context").iterator():
            texts |= {text for _, text in [*quarantine.iter_texts(payload), *quarantine.iter_texts(context)]}
        self._lines = {" ".join(text.lower().split()) for text in texts if text}

    def contains_word(self, text: str, word: str) -> bool:
        """Return whether the word occurs in this text only as part of texts that raters may read."""
        lower = " ".join(text.lower().split())
        lines_with_word = [line for line in self._lines if word in line]
        return any(lower in line for line in lines_with_word) or not self._has_word_outside(
            lower, lines_with_word, word
        )

    def _has_word_outside(self, rest: str, lines: Iterable[str], word: str) -> bool:
        # Longest first: removing a line that is part of a longer one would leave the rest of the longer one.
        for line in sorted(lines, key=len, reverse=True):
            rest = rest.replace(line, " ")
        return word in rest if not word.isalpha() else contains_word(rest, word)


def _mentions_value(text: str, kind: str, value: str) -> bool:
    lower = text.lower()
    # Sealed words count as parts of words as well; labels such as a cast's name only as separate words.
    return value in lower and (kind == "the word" or not value.isalpha() or contains_word(lower, value))


def _load_row_numbers(study: Study) -> dict[str, dict[int, int | None]]:
    sources = list(
        ItemSource.objects.filter(item__study=study).values_list(
            "item_id", "pk", "transition_id", "twin_id", "imported_id"
        )
    )
    assignments = Assignment.objects.filter(rater__study=study).values_list("pk", flat=True)
    return {
        "item": {item: item for item, *_ in sources},
        "assignment": {pk: pk for pk in assignments},
        "source": {item: source for item, source, *_ in sources},
        "transition": {item: step for item, _, step, *_ in sources},
        "twin": {item: twin for item, _, _, twin, _ in sources if twin},
        "imported item": {item: imported for item, _, _, _, imported in sources if imported},
    }


def _describe_difference(pieces: Sequence[str], paired_pieces: Sequence[str]) -> str:
    """Return a short description of the first piece that differs."""
    match = difflib.SequenceMatcher(None, pieces, paired_pieces, autojunk=False)
    for kind, a, b, c, d in match.get_opcodes():
        if kind != "equal":
            both_sides = (
                " ".join(pieces[a:b]).strip()[:100] or "nothing",
                " ".join(paired_pieces[c:d]).strip()[:100] or "nothing",
            )
            return f"{both_sides[0]!r} (otherwise {both_sides[1]!r})"
    return "the order"
