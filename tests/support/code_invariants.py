"""Violations that a site must not have once its code episodes have ended, whatever happened while they were played."""

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.killed_code_site import SLOTS, CodeSite, KillCounts, read_start_time

SelectRows = Callable[[str], list[tuple[Any, ...]]]
# Violation -> query of the rows that show it. Every query must return none.
VIOLATION_QUERIES = {
    "an episode did not end by the rules": """
        select e.id, e.status, e.reason, e.error from simulation_codeepisode e
        left join simulation_grading g on g.episode_id = e.id
        where e.ended_at is null or e.reason <> '' or e.lease_until is not null or e.status in ('failed', 'cancelled')
        or g.id is null or g.outcome = 'fault'""",
    "a sandbox is not in an end state": """
        select id, state from simulation_sandboxrun where ended_at is null or state not in ('done', 'lost', 'fenced')""",
    "a step in a sandbox has no sandbox that counts": """
        select t.episode_id, t.number from simulation_codestep t left join simulation_sandboxrun s
        on s.episode_id = t.episode_id and s.number = t.number and s.purpose = 'tool' and s.state = 'done'
        where t.tool in ('run_command', 'run_script') and not t.refused and s.id is null""",
    "a sandbox that counts has no step": """
        select s.id from simulation_sandboxrun s left join simulation_codestep t
        on t.episode_id = s.episode_id and t.number = s.number
        where s.purpose = 'tool' and s.state = 'done' and t.id is null""",
    "a call is not in an end state": """
        select id, state from simulation_modelcall
        where code_episode_id is not null and (ended_at is null or state not in ('answered', 'lost', 'fenced', 'failed'))""",
    "a turn was not answered exactly once": """
        select code_episode_id, number, role, turn from simulation_modelcall where code_episode_id is not null
        group by code_episode_id, number, role, turn
        having sum(case when state = 'answered' then 1 else 0 end) <> 1""",
}
# Only while the database stays up: a sandbox that ended while it was down counts, and its step is made again.
REPEATED_SANDBOXES = """
    select episode_id, number, count(*) from simulation_sandboxrun where purpose = 'tool' and state = 'done'
    group by episode_id, number having count(*) <> 1"""
STEPS = "select episode_id, number, tree_before_id, tree_after_id from simulation_codestep order by id"
EPISODES = "select id, next_number, initial_id, present_id from simulation_codeepisode"
RESULTS = """
    select e.cast, m.key, e.replicate, e.status, g.outcome from simulation_codeepisode e
    join simulation_mask m on m.id = e.mask_id left join simulation_grading g on g.episode_id = e.id"""
PLAYED = """
    select e.cast, m.key, e.replicate, t.number, t.tool, t.tree_after_id from simulation_codestep t
    join simulation_codeepisode e on e.id = t.episode_id join simulation_mask m on m.id = e.mask_id order by t.id"""


def find_violations(site: CodeSite, program: Path, killed: KillCounts) -> dict[str, Any]:
    """Return all violations of invariants, each with what shows it. No worker may have work left."""
    found: dict[str, Any] = find_row_violations(site.select_rows)
    found["a step was made in two sandboxes that count"] = site.select_rows(REPEATED_SANDBOXES)
    # The sandbox of a slow worker may first have counted as lost; in the end only those of killed workers do.
    lost = {key for (key,) in site.select_rows("select id from simulation_sandboxrun where state = 'lost'")}
    found["sandboxes were lost although their worker was not killed"] = lost - killed.sandboxes
    found["sandboxes were under way at a kill and are not lost"] = killed.sandboxes - lost
    found["processes of sandboxes outlived their worker"] = wait_for_ends(killed)
    found["processes of sandboxes run without work"] = list_processes(program)
    found["slots are held without work"] = list_held_slots(site.folder / "var" / "sandboxes")
    found["files were left"] = list_left_files(site.folder)
    return {name: rows for name, rows in found.items() if rows}


def find_row_violations(select_rows: SelectRows) -> dict[str, Any]:
    """Return the violations that rows show."""
    found: dict[str, Any] = {name: select_rows(query) for name, query in VIOLATION_QUERIES.items()}
    found["steps are not 1 to k, each on the workspace that the one before it left"] = find_broken_chains(select_rows)
    return {name: rows for name, rows in found.items() if rows}


def find_broken_chains(select_rows: SelectRows) -> list[tuple[Any, ...]]:
    """Return the episodes whose steps, in the order of storing, are not 1 to k or do not follow from each other."""
    steps: dict[int, list[tuple[int, str, str]]] = {}
    for episode, number, before, after in select_rows(STEPS):
        steps.setdefault(episode, []).append((number, before, after))
    broken = []
    for episode, following, initial, present in select_rows(EPISODES):
        played = steps.get(episode, [])
        trees = [initial, *(after for _, _, after in played)]
        numbers, befores = [number for number, _, _ in played], [before for _, before, _ in played]
        if numbers != list(range(1, following)) or befores != trees[:-1] or trees[-1] != present or not played:
            broken.append((episode, following, numbers))
    return broken


def list_results(site: CodeSite) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return status, outcome and steps, with the workspace that each left, by cast, mask and replicate.

    Not what was observed: it contains the seconds that a command took.
    """
    steps: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for cast, mask, replicate, *step in site.select_rows(PLAYED):
        steps.setdefault((cast, mask, replicate), []).append(tuple(step))
    return {
        (cast, mask, replicate): (status, outcome, steps.get((cast, mask, replicate)))
        for cast, mask, replicate, status, outcome in site.select_rows(RESULTS)
    }


def count_outcomes(results: dict[tuple[Any, ...], tuple[Any, ...]]) -> Counter[str]:
    return Counter(str(result[1]) for result in results.values())


def wait_for_ends(killed: KillCounts, seconds: float = 5) -> list[int]:
    """Return the processes of these sandboxes that still run after some seconds."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid, started in killed.processes if started and read_start_time(pid) == started]:
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    return []


def list_processes(program: Path) -> list[int]:
    """Return the processes that run this program. The path of a link may belong to another file system, so files are compared."""
    running = []
    for path in Path("/proc").glob("[0-9]*/exe"):
        try:
            if os.path.samestat(path.stat(), program.stat()):
                running.append(int(path.parent.name))
        except OSError:  # it has ended, or is a thread of the kernel
            continue
    return running


def list_held_slots(folder: Path) -> list[str]:
    held = []
    for path in sorted(folder.iterdir()):
        with path.open("rb+") as slot:
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(path.name)
    return held


def list_left_files(folder: Path) -> list[str]:
    """Return the files in the folders of variable data and of temporary files, except the slots and what every site has."""
    paths = [path for name in ("var", "tmp") for path in (folder / name).rglob("*") if not path.is_dir()]
    expected = {"secret_key"} | {f"slot-{number}" for number in range(SLOTS)}
    return sorted(str(path.relative_to(folder)) for path in paths if path.name not in expected)
