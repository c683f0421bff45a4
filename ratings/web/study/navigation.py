"""The navigation of a study's pages: five groups, and the pages of the group that is shown.

A page is offered if the access table allows it to the user's role and if it exists in the study's current state.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from django.urls import reverse

from ratings.models import Study
from wetbench_site.access_table import find_access_row


def _is_opened(study: Study) -> bool:
    return not study.is_draft


def _is_sealed(study: Study) -> bool:
    """Return whether the study was opened and not yet unblinded."""
    return not study.is_draft and not study.is_unblinded


def _accepts_items(study: Study) -> bool:
    return study.status in ("draft", "open", "paused")


def _is_unblinded(study: Study) -> bool:
    return study.is_unblinded


def _exists_always(study: Study) -> bool:
    return True


class Page(NamedTuple):
    """A page of a study: its title, the name of its view, and in which states it exists.

    `roles` are those to whom it is offered, if these are fewer than the access table allows.
    """

    title: str
    view: str
    exists: Callable[[Study], bool] = _exists_always
    roles: Sequence[str] = ("superuser", "admin", "analyst", "staff")


GROUPS: tuple[tuple[str, tuple[Page, ...]], ...] = (
    ("Overview", (Page("Overview", "ratings:study"),)),
    (
        "Items",
        (
            Page("All items", "ratings:items", _is_unblinded),
            Page("Quarantine", "ratings:quarantine"),
            Page("Import items", "ratings:import_items", _accepts_items),
            # The twins of all studies. Vetting one matters here only as long as it can still be drawn.
            Page("Vetting", "ratings:vetting", lambda study: study.is_draft),
        ),
    ),
    (
        "Raters",
        (
            Page("People", "ratings:raters", _is_opened),
            Page("Plan the size", "ratings:planner", lambda study: study.is_draft),
            Page("Assignments", "ratings:matrix"),
            Page("Model raters", "ratings:machines", _is_opened),
            Page("Instructions", "ratings:study_guide", _is_opened),
            Page("Preview", "ratings:preview"),
            Page("Public page", "ratings:public_page"),
        ),
    ),
    (
        "Results",
        (
            # For superusers it exists too, but usually they created the study and are refused.
            Page("Interim analysis", "ratings:interim", _is_sealed, roles=("analyst",)),
            Page("Figures and tables", "ratings:first_results", _is_unblinded),
            Page("Compare", "ratings:compare", _is_unblinded),
            Page("Export", "ratings:export", _is_opened),
            Page("Import ratings", "ratings:import_ratings", _is_sealed),
        ),
    ),
    (
        "Settings",
        (
            Page("Team", "ratings:members"),
            Page("Blinding audit", "ratings:audit", _is_opened),
            Page("Activity log", "ratings:study_log"),
        ),
    ),
)


class NavLink(NamedTuple):
    """A link of the navigation. `current` is the value of aria-current: "page", "true" for the group of the page, or ""."""

    title: str
    address: str
    current: str


class Navigation(NamedTuple):
    """Links to the groups, and to the pages of the current group; no pages if it has only one."""

    groups: tuple[NavLink, ...]
    pages: tuple[NavLink, ...]


def build_navigation(study: Study, role: str, path: str, *, is_staff: bool = False) -> Navigation:
    """Return the navigation for a user with this role in the study, on the page with this path.

    A path below that of a page, such as the path of one item, belongs to that page.
    """
    roles = (role, "staff") if is_staff else (role,)
    addresses = {page: _build_address(page, study) for _, pages in GROUPS for page in pages}
    # The longest address, because the address of the study is the start of all of them.
    current_address = max((one for one in addresses.values() if path.startswith(one)), key=len, default="")
    groups: list[NavLink] = []
    current_pages: tuple[NavLink, ...] = ()
    for title, pages in GROUPS:
        links = tuple(
            NavLink(page.title, addresses[page], _mark_current(addresses[page], current_address, path))
            for page in pages
            if page.exists(study) and _is_offered(page, roles)
        )
        if not links:
            continue
        has_current = any(link.current for link in links)
        current = "" if not has_current else "true" if len(links) > 1 else links[0].current
        groups.append(NavLink(title, links[0].address, current))
        if has_current and len(links) > 1:
            current_pages = links
    return Navigation(tuple(groups), current_pages)


def _build_address(page: Page, study: Study) -> str:
    return reverse(page.view) if page.view == "ratings:vetting" else reverse(page.view, args=[study.slug])


def _is_offered(page: Page, roles: Sequence[str]) -> bool:
    row = find_access_row(page.view)
    return row is not None and any("GET" in row[role] for role in roles if role in page.roles)


def _mark_current(address: str, current_address: str, path: str) -> str:
    if address != current_address:
        return ""
    return "page" if path == address else "true"
