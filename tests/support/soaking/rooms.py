"""Two open studies for the raters of a soak, made as a site's users make them: items imported, seats taken by link."""

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

MADE = re.compile(r"SEAT (\S+) (\S+)")
ABOUT = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9", "consent": "on"}
WANTED = 3  # ratings of each item of the pool


class House(Protocol):
    """A site whose commands can be run."""

    folder: Path

    def manage(self, *command: str, seconds: float = ...) -> str: ...


def line(number: int) -> dict[str, Any]:
    """A transfer in the contract of check_transitions; what it leaves tells the lines apart."""
    flask = {
        "name": "Cells", "properties": {"volume": "10 mL"}, "available_for_use": "available_for_further_use",
        "environmental_condition": "room_temp",
    }  # fmt: skip
    kept = {**flask, "replaces": "MAT-AAAAAAAA", "properties": {"volume": f"{number} mL"}}
    tube = {**flask, "replaces": "", "name": "Tube", "properties": {"volume": "1 mL"}}
    outcome = {"new_materials": [kept, tube], "new_observations": [], "success": True, "failure_reason": ""}
    return {
        "id": f"item-{number}", "source": "elsewhere", "pair": f"pair-{number}", "truth": "correct",
        "input_materials": [{**flask, "barcode": "MAT-AAAAAAAA"}],
        "action": {"name": "Transfer", "parameters": {"volume": "1 mL", "source": "MAT-AAAAAAAA"}}, "outcome": outcome,
    }  # fmt: skip


def make(raters: int, items: int) -> None:
    """In a process of the site: half of the raters over one order planned before, half over a pool; prints their links."""
    from ratings.exchange.imports import item_imports
    from ratings.raters import inviting
    from ratings.studies import lifecycle

    half = max(raters // 2, 1)
    for name, design, seats, count in (
        ("planned", {"design": "crossed", "ratings_per_item": half}, half, items),
        ("pooled", {"design": "pool", "ratings_per_item": WANTED}, raters - half, items * (raters - half) // WANTED),
    ):
        document = {
            "name": name, "slug": name, "kind": "transition_plausibility", "sources": [], "practice": 0, "seed": 1, **design,
        }  # fmt: skip
        study = lifecycle.create_study(lifecycle.read_protocol(document))
        lines = (json.dumps(line(number)) for number in range(1, max(count, WANTED) + 1))
        if problems := item_imports.take(study, io.BytesIO("\n".join(lines).encode())).problems:
            raise AssertionError(problems)
        lifecycle.open_study(study, seats)
        for seat in study.raters.order_by("number"):
            print("SEAT", seat.code, inviting.invite(seat))


def taken(
    house: House, site: str, raters: int, items: int, think: tuple[float, float], seed: int, stop: threading.Event
) -> list[Rater]:
    """The studies made, and each seat taken by a rater who has consented and read the guide."""
    script = f"from soaking import rooms; rooms.make({raters}, {items})"
    said = MADE.findall(house.manage("shell", "--no-imports", "-c", script, seconds=600))
    assert len(said) == raters, said
    journal = Journal(house.folder / "journal.jsonl")
    made = [
        Rater(Visitor(site), str(UUID(code)), journal, think, random.Random(f"{seed}/{number}"), stop, WAITS)
        for number, (code, _) in enumerate(said)
    ]
    with ThreadPoolExecutor(4) as hands:
        list(hands.map(take_seat, made, [token for _, token in said]))
    return made


def take_seat(rater: Rater, token: str) -> None:
    guide = rater.visitor.submit(rater.visitor.get(f"/r/{token}/"), **ABOUT)
    assert guide.url.endswith("/guide/"), guide.text[:2000]
    assert rater.visitor.submit(guide, "/guide/").status == 200
