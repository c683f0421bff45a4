"""Run all checks of an audit on a scratch copy.

What raters and strangers are sent is searched for sealed values, and compared with that of swapped origins.
"""

import difflib
import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from django.urls import reverse

from ratings.models import Assignment, Item, ItemSource, PublicPage, Rater, Study
from ratings.studies import public_page, quarantine
from ratings.studies.blinding_audit import form_tests, order_tests, stored_items, style_tests, visits
from ratings.studies.blinding_audit.audit_runner import OnProgress, build_report
from ratings.studies.blinding_audit.browser import Browser, LocatedText, Page, remove_changing_parts
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.scratch_copy import roll_back_changes
from ratings.studies.blinding_audit.stored_items import contains_word

_NUMBER = re.compile(r"(?<![0-9A-Za-z-])[0-9]{1,12}(?![0-9A-Za-z-])")
_FULLY_COMPARED_RATERS = 2  # raters all of whose pages are compared; for the others, only the pages about items
_ITEMS_PER_VISIT = 20  # items that strangers request in one transaction
_UNREAD_LOCATIONS = ("attribute class", "attribute id", "attribute data-", "header", "the address")
_FORBIDDEN = ("etag", "last-modified", "server-timing", "x-debug", "x-powered-by", "x-runtime")


class ResponseChecks:
    """Collects the checks of everything that is sent, page by page; no page is stored."""

    def __init__(self, study: Study, sealed: stored_items.SealedValues) -> None:
        self.study, self.sealed = study, sealed
        self.shown = _ReadableTexts(study)
        self.words = Check("sent words", "Does anything sent to raters reveal a source, an error or a secret?")
        self.worlds = Check("another origin", "Would anything sent to raters differ if every item had another origin?")
        asked = "Are headers the same for every item, without caching, and free of identifying values?"
        self.headers = Check("headers", asked)
        self.numbers = Check("database numbers", "Does a URL or attribute show the number of a database row?")
        self.doors = Check("closed doors", "Is an item of another rater answered like one that does not exist?")
        self.answers = Check("answers", "Does every page answer, and none with an error of the site?")
        self._values: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        self._names: dict[tuple[str, int], set[frozenset[str]]] = defaultdict(set)
        self._slots: dict[tuple[str, str], list[tuple[int, Page]]] = defaultdict(list)
        self.times = visits.RequestTimes()

    def list_checks(self) -> list[Check]:
        self.headers.leaks += self._find_uneven_headers()
        self.numbers.leaks += self._find_row_numbers()
        timing = visits.check_timing(self.study, self.times)
        return [self.words, self.worlds, self.headers, self.numbers, self.doors, self.answers, timing]

    def inspect_page(self, page: Page) -> None:
        """Check a single answer, without comparing it with others."""
        self.words.add_leaks(self.find_sealed_words(page))
        expected = _EXPECTED_STATUS.get(page.label)
        is_expected = page.status == expected if expected else page.status < 500  # others: no error of the site
        self.answers.add_leaks([] if is_expected else [Leak(page.label, f"answered {page.status}")])
        kind = f"{page.label}, {page.status}"
        self.answers.measured[kind] = self.answers.measured.get(kind, 0) + 1
        self._collect_headers(page)
        self._collect_numbers(page)

    def compare_pages(self, page: Page, paired_page: Page) -> None:
        """Compare answers with true and with swapped sources: all but tokens, codes and times must be equal."""
        self.worlds.looked_at += 1
        if page.split_stable_parts() != paired_page.split_stable_parts():
            difference = _describe_difference(page.split_stable_parts(), paired_page.split_stable_parts())
            self.worlds.leaks.append(Leak(page.label, f"{difference} depends on where the item came from"))

    def find_sealed_words(self, page: Page) -> Iterator[Leak]:
        """Yield the sealed values on the page, except words that the study itself or an item's payload contains."""
        located_texts = list(page.iter_texts())
        # One search of the joined text first: most pages contain nothing, and searching each text takes longer.
        matches = list(self.sealed.find_in("\n".join(located.text for located in located_texts)))
        for kind, value in matches:
            for located in located_texts:
                lower = located.text.lower()
                # Sealed words count as parts of words as well; labels such as a cast's name only as separate words.
                is_whole = kind == "the word" or not value.isalpha() or contains_word(lower, value)
                if value in lower and is_whole and not self._is_allowed_text(page, located, kind, value):
                    yield Leak(f"{page.label}, {located.location}", f"{kind}: {value[:60]!r}")

    def _is_allowed_text(self, page: Page, located: LocatedText, kind: str, value: str) -> bool:
        """Return whether the value is in the study's own texts or an item's payload, which are checked separately."""
        # Raters do not read these, so the study's texts are no reason for a value to be there.
        if located.location.startswith(_UNREAD_LOCATIONS):
            return False
        may_be_of_interface = kind in ("the word", "the source", "the error type") and page.is_html and page.item == 0
        is_of_interface = may_be_of_interface and value in stored_items.load_interface_words()
        return is_of_interface or self.shown.contains_word(located.text, value)

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
        for place in page.parsed_html.places if page.is_html else ():
            if place.location.startswith("attribute"):
                yield place.location, remove_changing_parts(place.text)

    def _find_row_numbers(self) -> Iterator[Leak]:
        """Yield a leak for each place whose number is a database key on every page, for at least three rows."""
        columns = ("pk", "transition_id", "twin_id", "imported_id")
        sources = list(ItemSource.objects.filter(item__study=self.study).values("item_id", *columns))
        by_column = {column: {row["item_id"]: row[column] for row in sources} for column in columns}
        rows = {
            "item": {row["item_id"]: row["item_id"] for row in sources},
            "assignment": {
                pk: pk for pk in Assignment.objects.filter(rater__study=self.study).values_list("pk", flat=True)
            },
            "source": by_column["pk"],
            "transition": by_column["transition_id"],
            "twin": {item: twin for item, twin in by_column["twin_id"].items() if twin},
            "imported item": {item: imported for item, imported in by_column["imported_id"].items() if imported},
        }
        for (location, pattern), numbered_pages in self._slots.items():
            for kind, rows_of_kind in rows.items():
                keys = [page.assignment if kind == "assignment" else page.item for _, page in numbered_pages]
                expected = [rows_of_kind.get(key) for key in keys]
                # With fewer rows a count or a position may be equal to a row's number by chance.
                if len(set(expected)) >= 3 and expected == [number for number, _ in numbered_pages]:
                    yield Leak(location, f"the number of the {kind}'s row (pk) in {pattern[:80]!r}")
                    break


_EXPECTED_STATUS = {  # expected statuses of requests that must succeed, or the audit would have examined nothing
    **dict.fromkeys(("item", "item fragment", "item answered", "item, second look", "answer", "own ratings"), 200),
    "public page": 200,
    **dict.fromkeys(("item, HEAD", "last page", "last page, finished"), 200),
    **dict.fromkeys(("plain answer", "plain final answer", "finish"), 303),
    "draft": 204,
}


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
        if any(lower in line for line in lines_with_word):
            return True
        # Longest first: removing a line that is part of a longer one would leave the rest of the longer one.
        for line in sorted(lines_with_word, key=len, reverse=True):
            lower = lower.replace(line, " ")
        return not (contains_word(lower, word) if word.isalpha() else word in lower)


def _describe_difference(pieces: Sequence[str], paired_pieces: Sequence[str]) -> str:
    """Return a short description of the first piece that differs."""
    match = difflib.SequenceMatcher(None, pieces, paired_pieces, autojunk=False)
    for kind, a, b, c, d in match.get_opcodes():
        if kind != "equal":
            piece = " ".join(pieces[a:b]).strip()[:100] or "nothing"
            paired_piece = " ".join(paired_pieces[c:d]).strip()[:100] or "nothing"
            return f"{piece!r} (otherwise {paired_piece!r})"
    return "the order"


class Visit(NamedTuple):
    """The pages that a rater was sent; for the items whose kind the swap changed, whether each truly is an error."""

    pages: list[Page]
    changed_truth: dict[int, bool]


def visit_all_raters(responses: ResponseChecks) -> Iterator[int]:
    """Visit every page of every rater and add it to the checks. Yield, for progress, how many raters are done."""
    study = responses.study
    for done, rater in enumerate(study.raters.order_by("number"), start=1):
        with roll_back_changes():  # the pages that a rater can open before the first answer
            browser = Browser(visits.prepare_user(rater))
            pages = [*visits.crawl_links(browser, rater), *visits.visit_refusals(browser, rater)]
        for page in pages:
            responses.inspect_page(page)
        keys = [assignment.pk for assignment in visits.list_assignments(rater)]
        # At least one visit, so that a rater without assignments is visited as well.
        for start in range(0, max(len(keys), 1), visits.CHUNK_SIZE):
            with_all_pages = start == 0 and done <= _FULLY_COMPARED_RATERS
            with roll_back_changes():
                chunk = set(keys[start : start + visits.CHUNK_SIZE])
                assignments = [assignment for assignment in visits.list_assignments(rater) if assignment.pk in chunk]
                both_visits = _visit_both_origins(rater, assignments, with_all_pages)
            _compare_visits(responses, *both_visits)
        yield done
    for items in visits.chunk_without_pairs(visits.find_unclaimed_items(study)):
        with roll_back_changes():
            rater = visits.create_rater(study)
            both_visits = _visit_both_origins(rater, visits.assign_items(rater, items), with_all_pages=False)
        _compare_visits(responses, *both_visits)
    _visit_as_strangers(responses)
    _visit_public_page(responses)


def _visit_both_origins(rater: Rater, assignments: Sequence[Assignment], with_all_pages: bool) -> tuple[Visit, Visit]:
    """Return two visits to the same assignments: one with true sources and one with swapped sources."""
    browser, study = Browser(visits.prepare_user(rater)), rater.study
    both: dict[bool, Visit] = {}
    # The order alternates between raters, so that caches do not make one of the two visits faster throughout.
    for is_swapped in (False, True) if rater.number % 2 else (True, False):
        with roll_back_changes(), browser.restore_cookies():
            changed_truth = visits.swap_sources(study, study.seed, visits.find_items_of(rater)) if is_swapped else {}
            pages = list(visits.visit_items(browser, assignments, visits.REQUESTS_PER_ITEM))
            pages += visits.visit_after_rating(browser, rater, with_all_pages)
        both[is_swapped] = Visit(pages, changed_truth)
    return both[False], both[True]


def _compare_visits(responses: ResponseChecks, true_visit: Visit, swapped_visit: Visit) -> None:
    if [page.label for page in true_visit.pages] != [page.label for page in swapped_visit.pages]:
        # The pages then cannot be compared one by one, and the difference is itself a leak.
        text = "which requests a rater makes, and how often, depends on where the item came from"
        responses.worlds.leaks.append(Leak("answer", text))
    for true_page, swapped_page in zip(true_visit.pages, swapped_visit.pages, strict=False):
        responses.inspect_page(true_page)
        responses.compare_pages(true_page, swapped_page)
        planted = swapped_visit.changed_truth.get(true_page.asked_item)
        if planted is not None and true_page.label == swapped_page.label:
            responses.times.add_page(true_page, planted)
            responses.times.add_page(swapped_page, not planted)


def _visit_as_strangers(responses: ResponseChecks) -> None:
    """Request every item without signing in, and as a rater without assignments: neither may exist for them."""
    items = list(responses.study.items.order_by("code").values_list("pk", flat=True))
    for start in range(0, len(items), _ITEMS_PER_VISIT):
        for page, reference_page in _request_as_stranger(responses.study, items[start : start + _ITEMS_PER_VISIT]):
            responses.words.add_leaks(responses.find_sealed_words(page))
            is_same = page.split_stable_parts() == reference_page.split_stable_parts()
            sentence = f"answered differently from an item that does not exist ({page.status})"
            responses.doors.add_leaks([] if is_same else [Leak(page.label, sentence)])


def _request_as_stranger(study: Study, items: Iterable[int]) -> list[tuple[Page, Page]]:
    """Return each response, paired with the response that the same stranger gets for an item that does not exist."""
    with roll_back_changes():
        # Unclaimed items have no assignment and so no URL; here they get one.
        visits.assign_items(
            visits.create_rater(study), {item: uuid.uuid4() for item in visits.find_unclaimed_items(study)}
        )
        assigned = Assignment.objects.filter(rater__study=study, item__in=items).order_by("pk")
        codes = dict(assigned.values_list("item_id", "code")).values()
        requests = [("no item, a stranger", uuid.uuid4()), *(("item, a stranger", code) for code in codes)]
        answers = []
        for browser in (Browser(), Browser(visits.prepare_user(visits.create_rater(study)))):
            urls = [(label, reverse("ratings:rate", args=[code])) for label, code in requests]
            no_item, *pages = (browser.send_request(label, "get", url) for label, url in urls)
            answers += [(page, no_item) for page in pages]
        return answers


def _visit_public_page(responses: ResponseChecks) -> None:
    """Request the study's public page, if it is on, as a stranger, and check its texts by themselves."""
    page = PublicPage.objects.select_related("study").filter(study=responses.study, is_on=True).first()
    if page is None:
        return
    sent = _request_public_page(page)
    responses.inspect_page(sent)
    with roll_back_changes():
        visits.swap_sources(responses.study, responses.study.seed)
        responses.compare_pages(sent, _request_public_page(page))
    # Searched again without the words of the interface, which would excuse the same words in the admin's own texts.
    for name, text in public_page.iter_public_texts(page):
        sealed = [
            Leak(f"public page, {name}", f"{kind}: {value[:60]!r}") for kind, value in responses.sealed.find_in(text)
        ]
        forbidden = public_page.find_forbidden_words(page.study, text)
        responses.words.add_leaks(
            [*sealed, *(Leak(f"public page, {name}", f"line {line}: {what}") for line, what in forbidden)]
        )


def _request_public_page(page: PublicPage) -> Page:
    return Browser().send_request("public page", "get", reverse("ratings:about", args=[page.token]))


def run_inspection(study: Study, copied_at: datetime, progress: OnProgress | None = None) -> dict[str, Any]:
    """Run all checks and return the report. Raises RuntimeError in a process that does not work on a scratch copy."""
    secrets = stored_items.collect_sealed_values(study)
    rows = ItemSource.objects.filter(item__study=study).order_by("item__code")
    sources = list(rows.select_related("item", "twin", "transition__episode__experiment"))
    checks = [
        *stored_items.check_payloads(study, secrets),
        *stored_items.check_other_studies(study),
        *order_tests.check_orders(study),
        *form_tests.check_forms(sources),
        *style_tests.check_styles(sources),
    ]
    raters = study.raters.count()
    # Pages last: they take the longest, and only they have a progress to report.
    responses = ResponseChecks(study, secrets)
    for n_visited in visit_all_raters(responses):
        if progress:
            progress(min(n_visited, raters), raters)
    return build_report(study, [*checks, *responses.list_checks()], copied_at)
