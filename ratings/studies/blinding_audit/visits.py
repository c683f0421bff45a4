"""Request what each rater's browser can be sent: every page, fragment, refusal and file, with true and swapped sources.

The visits write to the database that they read, so they need a scratch copy. Each is rolled back.
"""

import random
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from statistics import median
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils import timezone
from scipy.stats import wilcoxon

from ratings.models import Assignment, InitialRating, ItemSource, Rater, Rating, RatingEvent, Study, UnsavedAnswer
from ratings.studies import designs
from ratings.studies.blinding_audit.browser import HTMX, Browser, Page
from ratings.studies.blinding_audit.findings import Check, Leak
from ratings.studies.blinding_audit.scratch_copy import require_scratch_copy, roll_back_changes
from ratings.studies.item_counts import update_item_counts

_SWAPPED_COLUMNS = (
    "pair", "label", "perturbation", "truth", "reference", "experiment", "action", "transition_id", "twin_id",
    "review_id", "imported_id", "target", "verdicts",
)  # fmt: skip
MIN_DIFFERENCE = 0.002  # seconds; a smaller difference is of no use to a rater
REQUESTS_PER_ITEM = 2  # requests of each item in one visit: the first may fill a cache
_REPETITIONS = 3  # repetitions when a difference is measured again
_MIN_ITEMS = 8  # the fewest items for which the signed rank test can be significant at 0.01
_MAX_REPEATED_ITEMS = 40  # items that are measured again, which are enough to confirm a difference
_ALPHA = 0.01
CHUNK_SIZE = 3  # assignments visited together: a page may not depend on the origin of any of them
MAX_CRAWLED_PAGES = 40  # pages of one rater that are reached by links
_PERSONAL_PAGES = ("desk", "profile", "my_ratings")
_RATER_PAGES = ("next", "guide", "practice", "done", "withdraw", "result", "review", "agree")


def prepare_user(rater: Rater) -> User:
    """Create a user in this rater's place, with nothing answered. Call it inside `roll_back_changes` only."""
    require_scratch_copy()
    user = User.objects.create(username=f"audit-{uuid.uuid4().hex}")
    now = timezone.now()
    # By queries and not through `lifecycle`: no event and no message may follow.
    Study.objects.filter(pk=rater.study_id).update(status="open")
    guide = rater.study.guide_version
    prepared = {"consented_at": now, "practised_at": now, "started_at": now, "guide_seen": guide, "finished_at": None}
    active = {"withdrawn_at": None, "dropped": False, "simulated": False, "imported_as": ""}
    Rater.objects.filter(pk=rater.pk).update(user=user, **prepared, **active)
    for answers in (Rating, RatingEvent, InitialRating, UnsavedAnswer):
        answers.objects.filter(assignment__rater=rater).delete()
    Assignment.objects.filter(rater=rater).update(opened_at=None, answered_at=None)
    # Session 2 of a crossover is visited as if its washout were over: opened items are shown at once.
    Assignment.objects.filter(rater=rater, session=2).update(opened_at=now)
    update_item_counts(Rater.objects.filter(pk=rater.pk))
    return user


def create_rater(study: Study) -> Rater:
    """Create another rater without assignments. Call it inside `roll_back_changes` only."""
    require_scratch_copy()
    number = max(study.raters.values_list("number", flat=True), default=0) + 1
    return Rater.objects.create(study=study, number=number, label=f"R{number:02}")


def find_unclaimed_items(study: Study) -> dict[int, UUID]:
    """Return the items that are assigned to nobody, with their pairs: in a new pool study, all."""
    assigned = Assignment.objects.filter(item=OuterRef("pk"), released_at__isnull=True)
    return dict(study.items.exclude(Exists(assigned)).order_by("code").values_list("pk", "source__pair"))


def chunk_without_pairs(items: Mapping[int, UUID]) -> list[dict[int, UUID]]:
    """Return the items in small chunks, none of which has two versions of one thing."""
    chunks: list[dict[int, UUID]] = []
    for item, pair in items.items():
        # No rater may have two versions, so none may be visited with them.
        free = next((chunk for chunk in chunks if len(chunk) < CHUNK_SIZE and pair not in chunk.values()), None)
        if free is None:
            chunks.append(free := {})
        free[item] = pair
    return chunks


def assign_items(rater: Rater, items: Mapping[int, UUID]) -> list[Assignment]:
    """Assign these items as if the rater had reserved them. Call it inside `roll_back_changes` only."""
    require_scratch_copy()
    reserved_until = timezone.now() + timedelta(hours=1)
    numbered, shared = enumerate(items.items(), start=1), {"rater": rater, "reserved_until": reserved_until}
    rows = (Assignment(item_id=item, position=number, pair=pair, **shared) for number, (item, pair) in numbered)
    Assignment.objects.bulk_create(rows)
    update_item_counts(Rater.objects.filter(pk=rater.pk))
    return list_assignments(rater)


def list_assignments(rater: Rater) -> list[Assignment]:
    """Return this rater's assignments that were not released, in their order."""
    rows = Assignment.objects.filter(rater=rater, released_at__isnull=True).order_by("position")
    return list(rows.select_related("rater"))


def visit_items(browser: Browser, assignments: Sequence[Assignment], requests: int = 1) -> Iterator[Page]:
    """Yield the pages of each item: item, fragment, refused and unsaved answers, each way to answer, rated item."""
    for assignment in assignments:
        url = reverse("ratings:rate", args=[assignment.code])
        for _ in range(requests):
            yield browser.send_request("item", "get", url, assignment)
        for method in ("head", "options"):
            yield browser.send_request(f"item, {method.upper()}", method, url, assignment)
        fragment = browser.send_request("item fragment", "get", url, assignment, headers=HTMX)
        yield fragment
        yield browser.send_request("answer without a verdict", "post", url, assignment, data={})
        draft_url = reverse("ratings:draft", args=[assignment.code])
        yield browser.send_request("draft", "post", draft_url, assignment, data={"verdict": "no", "confidence": "2"})
        with roll_back_changes(), browser.restore_cookies():
            # Rolled back: the item has to be unanswered for the answers with scripts.
            plain_pages = list(_answer_item(browser, url, assignment, fragment, "plain ", {}))
        yield from plain_pages
        yield from _answer_item(browser, url, assignment, fragment, "", HTMX)
        old_form = {"verdict": "yes", "confidence": "1", "submission_id": str(uuid.uuid4())}
        yield browser.send_request("answer from an old form", "post", url, assignment, data=old_form)
        yield browser.send_request("item answered", "get", url, assignment)


def _answer_item(
    browser: Browser, url: str, assignment: Assignment, item_page: Page, prefix: str, headers: Mapping[str, str]
) -> Iterator[Page]:
    """Yield the responses to a rating that is submitted as a person would submit it."""
    # A study may ask for an initial rating and then a final one.
    for label in ("answer", "final answer"):
        values = {**item_page.find_form_fields(url), "verdict": "yes", "confidence": "3"}
        result_page = browser.send_request(prefix + label, "post", url, assignment, data=values, headers=headers)
        # The answer contains the next item, so it must not be compared with pages about this one.
        yield replace(result_page, item=0, assignment=0)
        if result_page.headers.get("Location") == url:
            result_page = browser.send_request("item, second look", "get", url, assignment)
            yield result_page
        if result_page.find_form_fields(url).get("stage") != "final":
            break
        item_page = result_page


def visit_after_rating(browser: Browser, rater: Rater, with_all_pages: bool) -> Iterator[Page]:
    """Yield the page of the rater's own answers, the last page before and after Finish, and on request all others."""
    require_scratch_copy()
    yield browser.send_request("own ratings", "get", reverse("ratings:my_ratings"))
    # As if nothing were left to rate, neither assigned nor in the pool: else the last page leads to the next item.
    Assignment.objects.filter(rater=rater, answered_at__isnull=True).update(released_at=timezone.now(), slot=None)
    update_item_counts(Rater.objects.filter(pk=rater.pk))
    Study.objects.filter(pk=rater.study_id).update(ratings_per_item=0)
    last_url = reverse("ratings:done", args=[rater.code])
    yield browser.send_request("last page", "get", last_url)
    yield browser.send_request("finish", "post", reverse("ratings:finish", args=[rater.code]))
    yield browser.send_request("last page, finished", "get", last_url)
    if with_all_pages:
        yield from crawl_links(browser, rater)


def crawl_links(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Yield every page that can be reached by links from the rater's own pages, except items."""
    queue = [reverse(f"ratings:{name}") for name in _PERSONAL_PAGES]
    queue += [reverse(f"ratings:{name}", args=[rater.code]) for name in _RATER_PAGES]
    codes = Assignment.objects.filter(rater=rater).values_list("code", flat=True)
    items = {reverse("ratings:rate", args=[code]) for code in codes}
    visited: set[str] = set()
    while queue and len(visited) < MAX_CRAWLED_PAGES:
        url = queue.pop(0).split("#")[0]
        # Signing out would end the visit.
        if not url.startswith("/") or url in visited or url.partition("?")[0] in items or "logout" in url:
            continue
        visited.add(url)
        page = browser.send_request("page", "get", url)
        yield page
        queue += page.list_links()


def visit_refusals(browser: Browser, rater: Rater) -> Iterator[Page]:
    """Yield the responses to wrong requests: an unknown item, an unknown page, an unsupported method."""
    unknown_url = reverse("ratings:rate", args=[uuid.uuid4()])
    yield browser.send_request("no such item", "get", unknown_url)
    yield browser.send_request("no such item, posted", "post", unknown_url, data={})
    yield browser.send_request("no such page", "get", "/rate/no-such-page/")
    if assignment := next(iter(list_assignments(rater)), None):
        yield browser.send_request("no such method", "put", reverse("ratings:rate", args=[assignment.code]), assignment)


def find_items_of(rater: Rater) -> Collection[int] | None:
    """Return the items that this rater's pages can be about; None, which means all items, in a pool study."""
    if designs.is_pool_study(rater.study):
        return None
    return set(Assignment.objects.filter(rater=rater).values_list("item_id", flat=True))


def swap_sources(study: Study, seed: int, only: Collection[int] | None = None) -> dict[int, bool]:
    """Give every item the source of another item, of another kind if possible.

    Return, for each item that becomes or ceases to be a planted error, whether it truly is one. With `only`, no other
    item is changed, to save time. Call it inside `roll_back_changes` only.
    """
    require_scratch_copy()
    # In a pool study a rater's next item depends on the pairs, so that nobody sees two versions of one thing. Items
    # therefore keep their pairs there: swapping them would change what is assigned, and not only what is shown.
    swapped = _SWAPPED_COLUMNS[1:] if designs.is_pool_study(study) else _SWAPPED_COLUMNS
    rows = list(ItemSource.objects.filter(item__study=study).order_by("pk"))
    random.Random(f"audit/{seed}").shuffle(rows)
    # Shuffled and then sorted by kind (stable), so that a shift crosses kinds and is random within them.
    rows.sort(key=lambda row: (row.perturbation != "none", row.perturbation, row.label))
    planted = sum(row.perturbation != "none" for row in rows)
    largest_kind = max(planted, len(rows) - planted)
    step = largest_kind if largest_kind < len(rows) else 1
    sources = [{name: getattr(row, name) for name in swapped} for row in rows]
    changed_truth, changed_rows = {}, []
    for index, row in enumerate(rows):
        if only is not None and row.item_id not in only:
            continue
        # Shifted by the size of the larger kind, so that few items keep their kind.
        new_source = sources[(index + step) % len(rows)]
        planted = row.perturbation != "none"
        if planted != (new_source["perturbation"] != "none"):
            changed_truth[row.item_id] = planted
        for name, value in new_source.items():
            setattr(row, name, value)
        changed_rows.append(row)
    ItemSource.objects.bulk_update(changed_rows, list(swapped), batch_size=200)
    return changed_truth


class RequestTimes:
    """Response times in seconds, by request and assignment, with the item as a planted error and without."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[int, dict[bool, list[float]]]] = {}

    def add_page(self, page: Page, planted: bool) -> None:
        if page.asked_assignment:
            places = self._seconds.setdefault(page.label, {})
            places.setdefault(page.asked_assignment, {True: [], False: []})[planted].append(page.seconds)

    @property
    def time_gaps(self) -> dict[str, list[float]]:
        """Return, for each request with enough items, how many seconds longer each item took as a planted error."""
        # The fastest of each: whatever else the computer does only makes a request slower.
        gaps_by_label = {
            label: [min(times[True]) - min(times[False]) for times in places.values() if times[True] and times[False]]
            for label, places in self._seconds.items()
        }
        return {label: gaps for label, gaps in gaps_by_label.items() if len(gaps) >= _MIN_ITEMS}

    def find_slow_requests(self) -> dict[str, str]:
        """Return a description of each request whose times differ significantly and by at least MIN_DIFFERENCE."""
        slow = {}
        for label, gaps in self.time_gaps.items():
            # Not corrected over requests: a difference has to be found twice, see `check_timing`.
            middle, p = median(gaps), float(wilcoxon(gaps).pvalue) if any(gaps) else 1.0
            if p < _ALPHA and abs(middle) >= MIN_DIFFERENCE:
                difference = f"{abs(middle) * 1000:.1f} ms {'longer' if middle > 0 else 'shorter'}"
                slow[label] = f"planted errors take {difference} than the same item without its error (p = {p:.2g})"
        return slow


def check_timing(study: Study, times: RequestTimes) -> Check:
    """Return the check whether response times depend on the source of an item."""
    check = Check("timing", "Does any answer take longer because of where the item came from?")
    gaps = times.time_gaps
    if "item" not in gaps:
        check.skipped = f"the origin of too few items could be swapped; at least {_MIN_ITEMS} are needed"
        return check
    first_findings = times.find_slow_requests()
    check.looked_at = sum(map(len, gaps.values()))
    medians = {label: round(median(item_gaps) * 1000, 3) for label, item_gaps in gaps.items()}
    check.measured = {"median_ms": medians, "measured_anew": sorted(first_findings)}
    if first_findings:
        # A busy computer can slow one visit and not the other, so a difference must be confirmed item by item.
        new_times = RequestTimes()
        raters = study.raters.order_by("number")
        assignments = ((rater, assignment) for rater in raters for assignment in list_assignments(rater))
        for rater, assignment in islice(assignments, _MAX_REPEATED_ITEMS):
            for page, planted in _visit_in_turns(rater, assignment, first_findings):
                new_times.add_page(page, planted)
        confirmed = new_times.find_slow_requests()
        check.leaks = [Leak(f"timing of {label}", sentence) for label, sentence in confirmed.items()]
    return check


def _visit_in_turns(rater: Rater, assignment: Assignment, labels: Collection[str]) -> list[tuple[Page, bool]]:
    """Return pages with both sources, and whether each was a planted error then; [] if the swap changes no kind."""
    with roll_back_changes():
        browser, study = Browser(prepare_user(rater)), rater.study
        pages: list[tuple[Page, bool]] = []
        for turn in range(_REPETITIONS):
            # In turns, so that neither has the warmer caches throughout.
            for is_swapped in (False, True) if turn % 2 else (True, False):
                with roll_back_changes(), browser.restore_cookies():
                    changed_truth = swap_sources(study, study.seed, find_items_of(rater)) if is_swapped else {}
                    if is_swapped and assignment.item_id not in changed_truth:
                        return []
                    wanted = set(labels)
                    for page in visit_items(browser, [assignment]):
                        pages += [(page, is_swapped)] if page.label in labels else []
                        wanted.discard(page.label)
                        if not wanted:  # requests after the last label are not needed
                            break
        with roll_back_changes():
            planted = swap_sources(study, study.seed, find_items_of(rater))[assignment.item_id]
        return [(page, planted != is_swapped) for page, is_swapped in pages]
