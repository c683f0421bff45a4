"""The pages of docs/ and the README: what they link to, name and list is there."""

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
STANDS_FOR = {"SLUG": "a", "<slug>": "a", "CODE": str(UUID(int=0)), "NAME": "rates"}


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """What its headings are called in an address: small letters and digits, hyphens for spaces, other signs left out."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[str]:
    """Links and pictures that lead to a file of ours."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" not in target:
            yield target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists() and ROOT in found.parents, target
        assert not anchor or anchor in anchors(found), target


def test_every_page_and_decision_is_linked_or_numbered() -> None:
    linked = {(page.parent / target.partition("#")[0]).resolve() for page in PAGES for target in links(page)}
    alone = [named(page) for page in PAGES if page not in linked and page.parent.name != "decisions"]
    assert alone == ["README.md"]
    numbers = [page.name[:4] for page in PAGES if page.parent.name == "decisions"]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_every_decision_that_is_named_is_there() -> None:
    there = {page.name[:4] for page in PAGES if page.parent.name == "decisions"}
    asked = {number for page in PAGES for number in re.findall(r"decision (\d{4})", page.read_text(encoding="utf-8"))}
    assert asked and asked <= there


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_address_of_the_site_that_is_named_resolves(page: Path) -> None:
    for address in re.findall(r"`(/(?:studies|benchmarks|jobs)/[^`\s]*)`", page.read_text(encoding="utf-8")):
        path = address.partition("?")[0]
        for word, value in STANDS_FOR.items():
            path = path.replace(word, value)
        assert resolve(path), address


def our_commands() -> list[str]:
    return sorted(
        name for name, app in get_commands().items() if app in WITH_COMMANDS and name != "runserver"
    )  # Django's own, guarded


def test_every_command_stands_in_the_page_of_operations() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert [name for name in our_commands() if not re.search(rf"`(?:[^`]*[ ,])?{name}\b", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_that_is_named_has_the_options_it_is_named_with(page: Path) -> None:
    known, apps = our_commands(), get_commands()
    for name, rest in re.findall(r"manage\.py (\w+)([^\n`#]*)", page.read_text(encoding="utf-8")):
        assert name in apps, name
        if name in known:
            there = load_command_class(apps[name], name).create_parser("manage.py", name)._option_string_actions
            asked = re.findall(r"--[a-z][a-z-]+", rest)
            assert [option for option in asked if option not in there] == [], name


def test_the_tree_of_architecture_names_every_room() -> None:
    tree = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1]
    parts = re.split(r"^(\w+)/ ", tree, flags=re.M)
    named_rooms = {
        (app, room)
        for app, text in zip(parts[1::2], parts[2::2], strict=True)
        for room in re.findall(r"\w+(?=/)", text)
    }
    rooms = {tuple(room.split("/")) for room in list_rooms()}
    assert rooms - named_rooms == set()


def test_the_layers_of_architecture_agree_with_the_rules_of_the_rooms() -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_module_that_a_page_names_by_its_path_exists(page: Path) -> None:
    paths = re.findall(
        r"`((?:simulation|ratings|wetbench_site|tests|bench|templates)/[\w/]+\.(?:py|html))`", page.read_text("utf-8")
    )
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_package_of_the_application_that_we_chose_has_its_reason() -> None:
    """Those above the line "What these bring with them"; Django and what the user fixed stand in the sentence before the table."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## 6. Libraries")[1].lower()
    for file in ("requirements.txt", "tests/requirements.txt"):
        chosen = (ROOT / file).read_text(encoding="utf-8").split("# What these bring")[0]
        for package in re.findall(r"^([A-Za-z][\w-]*)", chosen, flags=re.M):
            assert re.search(rf"(?<![\w-]){re.escape(package.lower())}(?![\w-])", text), package
