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

from tests.support.soaking.answer_log import AnswerLog
from tests.support.soaking.rater import WAITS, SoakRater
from tests.support.visitor import Visitor

PRINTED_LINK = re.compile(r"RATER (\S+) (\S+)")
CONSENT_FORM = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9", "consent": "on"}
RATINGS_PER_ITEM = 3  # ratings of each item of the pool


class SiteWithCommands(Protocol):
    """A site whose management commands can be run."""

    folder: Path

    def run_command(self, *command: str, seconds: float = ...) -> str: ...


def build_item_line(number: int) -> dict[str, Any]:
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


def create_studies(raters: int, items: int) -> None:
    """In a process of the site, create a study with a planned order for half of the raters and a pool study for the others; print their links."""
    from ratings.exchange.imports import item_imports
    from ratings.raters import invitations
    from ratings.studies import lifecycle

    n_planned = max(raters // 2, 1)
    for name, design, n_raters, count in (
        ("planned", {"design": "crossed", "ratings_per_item": n_planned}, n_planned, items),
        (
            "pooled",
            {"design": "pool", "ratings_per_item": RATINGS_PER_ITEM},
            raters - n_planned,
            items * (raters - n_planned) // RATINGS_PER_ITEM,
        ),
    ):
        document = {
            "name": name, "slug": name, "kind": "transition_plausibility", "sources": [], "practice": 0, "seed": 1, **design,
        }  # fmt: skip
        study = lifecycle.create_study(lifecycle.parse_protocol(document))
        lines = (json.dumps(build_item_line(number)) for number in range(1, max(count, RATINGS_PER_ITEM) + 1))
        if problems := item_imports.import_file(study, io.BytesIO("\n".join(lines).encode())).problems:
            raise AssertionError(problems)
        lifecycle.open_study(study, n_raters)
        for rater in study.raters.order_by("number"):
            print("RATER", rater.code, invitations.create_invitation(rater))


def create_raters(
    house: SiteWithCommands,
    site: str,
    raters: int,
    items: int,
    think: tuple[float, float],
    seed: int,
    stop: threading.Event,
) -> list[SoakRater]:
    """Create the studies, and let a rater accept each link, consent and read the guide."""
    script = f"import tests.support.soaking.soak_studies; tests.support.soaking.soak_studies.create_studies({raters}, {items})"
    links = PRINTED_LINK.findall(house.run_command("shell", "--no-imports", "-c", script, seconds=600))
    assert len(links) == raters, links
    journal = AnswerLog(house.folder / "journal.jsonl")
    created = [
        SoakRater(Visitor(site), str(UUID(code)), journal, think, random.Random(f"{seed}/{number}"), stop, WAITS)
        for number, (code, _) in enumerate(links)
    ]
    with ThreadPoolExecutor(4) as hands:
        list(hands.map(accept_link, created, [token for _, token in links]))
    return created


def accept_link(rater: SoakRater, token: str) -> None:
    guide = rater.visitor.submit_form(rater.visitor.get(f"/r/{token}/"), **CONSENT_FORM)
    assert guide.url.endswith("/guide/"), guide.text[:2000]
    assert rater.visitor.submit_form(guide, "/guide/").status == 200
