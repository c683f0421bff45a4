"""The pages of docs/ and the README: everything they link to, name and list exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class
from django.urls import resolve

from tests.test_imports import list_rooms, read_rule

ROOT = Path(settings.BASE_DIR)
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
OURS = ("ratings", "simulation")
WITH_COMMANDS = (*OURS, "wetbench_site")
PLACEHOLDERS = {"SLUG": "a", "<slug>": "a", "CODE": str(UUID(int=0)), "NAME": "rates"}


def get_page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def strip_code_blocks(page: Path) -> str:
    """Return the page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings: small letters and digits, hyphens for spaces, other characters left out."""
    headings = re.findall(r"^#+ (.+)$", strip_code_blocks(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def iter_links(page: Path) -> Iterator[str]:
    """Yield links and pictures that lead to a file of ours."""
    for target in re.findall(r"\]\(([^)\s]+)\)", strip_code_blocks(page)):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_docs_links_lead_to_existing_files_and_headings(page: Path) -> None:
    for target in iter_links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists() and ROOT in file.parents, target
        assert not anchor or anchor in list_anchors(file), target


def test_docs_pages_are_linked_and_decisions_numbered() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in iter_links(page)}
    unlinked = [get_page_name(page) for page in PAGES if page not in linked and page.parent.name != "decisions"]
    assert unlinked == ["README.md"]
    numbers = [page.name[:4] for page in PAGES if page.parent.name == "decisions"]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_docs_name_only_existing_decisions() -> None:
    existing = {page.name[:4] for page in PAGES if page.parent.name == "decisions"}
    named_numbers = {
        number for page in PAGES for number in re.findall(r"decision (\d{4})", page.read_text(encoding="utf-8"))
    }
    assert named_numbers and named_numbers <= existing


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_docs_name_only_addresses_that_resolve(page: Path) -> None:
    for address in re.findall(r"`(/(?:studies|benchmarks|jobs)/[^`\s]*)`", page.read_text(encoding="utf-8")):
        path = address.partition("?")[0]
        for word, value in PLACEHOLDERS.items():
            path = path.replace(word, value)
        assert resolve(path), address


def list_our_commands() -> list[str]:
    return sorted(
        name for name, app in get_commands().items() if app in WITH_COMMANDS and name != "runserver"
    )  # Django's own, guarded


def test_operations_page_lists_every_command() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [name for name in list_our_commands() if not re.search(rf"`(?:[^`]*[ ,])?{name}\b", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_docs_name_only_existing_commands_and_options(page: Path) -> None:
    known, apps = list_our_commands(), get_commands()
    for name, rest in re.findall(r"manage\.py (\w+)([^\n`#]*)", page.read_text(encoding="utf-8")):
        assert name in apps, name
        if name in known:
            existing_options = (
                load_command_class(apps[name], name).create_parser("manage.py", name)._option_string_actions
            )
            named_options = re.findall(r"--[a-z][a-z-]+", rest)
            assert [option for option in named_options if option not in existing_options] == [], name


def test_architecture_page_lists_every_room_of_the_code_in_its_tree() -> None:
    tree = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1]
    parts = re.split(r"^(\w+)/ ", tree, flags=re.M)
    named_rooms = {
        (app, room)
        for app, text in zip(parts[1::2], parts[2::2], strict=True)
        for room in re.findall(r"\w+(?=/)", text)
    }
    rooms = {tuple(room.split("/")) for room in list_rooms()}
    assert rooms - named_rooms == set()


def test_architecture_layers_agree_with_the_import_rules() -> None:
    layers = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## 2.")[1].split("```")[1]
    rank: dict[str, int] = {}
    for number, line in re.findall(r"^ *(\d+)  (.+)$", layers, flags=re.M):
        for name in re.split(r" {3,}", line):
            rank[name] = int(number)
    rooms = [room for room in list_rooms() if room.startswith(OURS)]
    assert len(rank) == len(rooms)

    def find_rank(room: str) -> int:
        app, name = room.split(".")
        return rank[name] if name in rank else rank[f"{name} ({app})"]

    for room in rooms:
        for allowed in read_rule(room):
            if allowed.replace(".", "/") in rooms:
                assert find_rank(allowed) < find_rank(room.replace("/", ".")), f"{room} imports {allowed}"


@pytest.mark.parametrize("page", PAGES, ids=get_page_name)
def test_docs_name_only_existing_modules(page: Path) -> None:
    paths = re.findall(
        r"`((?:simulation|ratings|wetbench_site|tests|bench|templates)/[\w/]+\.(?:py|html))`", page.read_text("utf-8")
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_architecture_gives_a_reason_for_every_chosen_package() -> None:
    """Chosen packages are above the line "What these bring with them". Django and prescribed packages are in the sentence before the table."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## 6. Libraries")[1].lower()
    for file in ("requirements.txt", "tests/requirements.txt"):
        chosen = (ROOT / file).read_text(encoding="utf-8").split("# What these bring")[0]
        for package in re.findall(r"^([A-Za-z][\w-]*)", chosen, flags=re.M):
            assert re.search(rf"(?<![\w-]){re.escape(package.lower())}(?![\w-])", text), package
