"""Two open studies for the raters of a soak test, made as the site's users make them: items are imported, raters join by link."""

import io
import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from tests.support.soaking.journal import Journal
from tests.support.soaking.rater import WAITS, Rater
from tests.support.visitor import Visitor

MADE = re.compile(r"RATER (\S+) (\S+)")
ABOUT = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9", "consent": "on"}
WANTED = 3  # ratings of each item of the pool


class House(Protocol):
    """A site whose management commands can be run."""

    folder: Path

    def manage(self, *command: str, seconds: float = ...) -> str: ...


def line(number: int) -> dict[str, Any]:
    """Return a transfer in the format of check_transitions. The volumes left differ, so that all lines do."""
    flask = {
        "name": "Cells", "properties": {"volume": "10 mL"}, "available_for_use": "available_for_further_use",
        "environmental_condition": "room_temp",
    }  # fmt: skip
    changed_flask = {**flask, "replaces": "MAT-AAAAAAAA", "properties": {"volume": f"{number} mL"}}
    tube = {**flask, "replaces": "", "name": "Tube", "properties": {"volume": "1 mL"}}
    outcome = {"new_materials": [changed_flask, tube], "new_observations": [], "success": True, "failure_reason": ""}
    return {
        "id": f"item-{number}", "source": "elsewhere", "pair": f"pair-{number}", "truth": "correct",
        "input_materials": [{**flask, "barcode": "MAT-AAAAAAAA"}],
        "action": {"name": "Transfer", "parameters": {"volume": "1 mL", "source": "MAT-AAAAAAAA"}}, "outcome": outcome,
    }  # fmt: skip


def make(raters: int, items: int) -> None:
    """In a process of the site, create a study with a planned order for half of the raters and a pool study for the others; print their links."""
    from ratings.exchange.imports import item_imports
    from ratings.raters import inviting
    from ratings.studies import lifecycle

    n_planned = max(raters // 2, 1)
    for name, design, n_raters, count in (
        ("planned", {"design": "crossed", "ratings_per_item": n_planned}, n_planned, items),
        (
            "pooled",
            {"design": "pool", "ratings_per_item": WANTED},
            raters - n_planned,
            items * (raters - n_planned) // WANTED,
        ),
    ):
        document = {
            "name": name, "slug": name, "kind": "transition_plausibility", "sources": [], "practice": 0, "seed": 1, **design,
        }  # fmt: skip
        study = lifecycle.create_study(lifecycle.read_protocol(document))
        lines = (json.dumps(line(number)) for number in range(1, max(count, WANTED) + 1))
        if problems := item_imports.take(study, io.BytesIO("\n".join(lines).encode())).problems:
            raise AssertionError(problems)
        lifecycle.open_study(study, n_raters)
        for rater in study.raters.order_by("number"):
            print("RATER", rater.code, inviting.invite(rater))


def taken(
    house: House, site: str, raters: int, items: int, think: tuple[float, float], seed: int, stop: threading.Event
) -> list[Rater]:
    """Create the studies, and let a rater accept each link, consent and read the guide."""
    script = f"import tests.support.soaking.rooms; tests.support.soaking.rooms.make({raters}, {items})"
    links = MADE.findall(house.manage("shell", "--no-imports", "-c", script, seconds=600))
    assert len(links) == raters, links
    journal = Journal(house.folder / "journal.jsonl")
    created = [
        Rater(Visitor(site), str(UUID(code)), journal, think, random.Random(f"{seed}/{number}"), stop, WAITS)
        for number, (code, _) in enumerate(links)
    ]
    with ThreadPoolExecutor(4) as hands:
        list(hands.map(take_seat, created, [token for _, token in links]))
    return created


def take_seat(rater: Rater, token: str) -> None:
    guide = rater.visitor.submit(rater.visitor.get(f"/r/{token}/"), **ABOUT)
    assert guide.url.endswith("/guide/"), guide.text[:2000]
    assert rater.visitor.submit(guide, "/guide/").status == 200
