"""Which documents the help has, grouped by reader. tests/wetbench_site/help checks that no document of `docs/` is missing."""

from pathlib import Path
from typing import NamedTuple

from django.conf import settings

FOLDER = settings.BASE_DIR / "docs"
DECISIONS = "decisions"
GLOSSARY = "glossary"


class Entry(NamedTuple):
    """A document: its name, which is that of its file without the ending, and what it is good for."""

    name: str
    purpose: str


class Group(NamedTuple):
    """Documents for readers with one task."""

    title: str
    purpose: str
    entries: tuple[Entry, ...]


GROUPS = (
    Group("Running a study", "For people who plan a study, simulate its items and invite raters", (
        Entry("studies", "Plan a study: designs, screens, blinding, and every field of the study document"),
        Entry(GLOSSARY, "Every term of the pages, with the word that the field uses"),
        Entry("imports", "Import items and ratings from other tools"),
        Entry("models", "Keys, models, prices, local servers, and the meaning of each failure"),
        Entry("prompts", "The prompts for models, and how to use your own"),
        Entry("laboratory", "Actions and experiments are data files: how to add one"),
        Entry("replication", "Tasks in which agents fill in hidden code: episodes, tools, and agents that are rules"),
        Entry("tasks", "How to add a replication task, and what check_tasks checks"),
        Entry("training", "Seeds of hidden truths, the Gymnasium environment, rewards and trajectories"),
    )),
    Group("Reading results", "For analysts", (
        Entry("statistics", "Formula, source and undefined cases of every number, and how often its interval is right"),
        Entry("paper", "The replication of the WetBench paper, number by number"),
        Entry("twins", "Planted errors: their sizes, and how many of them programs without scientific knowledge find"),
        Entry("checker", "What the checker finds in a step, and what it cannot decide"),
        Entry("api", "Read studies, items, ratings and statistics from a program"),
    )),
    Group("Operating a site", "For people who install and maintain WetBench", (
        Entry("operations", "Install, upgrade, back up, verify, scale out, rotate keys; every setting and command"),
        Entry("sandbox", "How the code of agents is isolated and limited, what is not isolated, and how to test it"),
        Entry("promises", "What is never lost, and the test that proves it"),
        Entry("performance", "Measured speed, against named baselines"),
        Entry("scaling", "What to add first on a larger site"),
    )),
    Group("Developing", "For people who change the code", (
        Entry("architecture", "How the code is organised, and why no step is lost or doubled"),
        Entry("contributing", "Where to change what, how we write, and how to check a change"),
        Entry("states", "States of an episode, a call, a job and a study"),
    )),
)  # fmt: skip


def list_names() -> list[str]:
    """Return the names of all documents in the order of the contents page; the decisions come last, by number."""
    return [entry.name for group in GROUPS for entry in group.entries] + list_decisions()


def list_decisions() -> list[str]:
    return sorted(path.stem for path in (FOLDER / DECISIONS).glob("*.md"))


def list_pictures() -> list[Path]:
    return sorted((FOLDER / "pictures").glob("*.png"))
