"""The page of a code episode with long steps: rows of `python -m bench.sandbox`, measured in a process with a database of its own."""

import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.export import set_up_django

TASKS = Path(__file__).resolve().parents[1] / "fixtures" / "replication"
TASK = "qpcr-titre"
STEPS = (5, 50)
STEP_BYTES = 64 * 2**10
ROUNDS = 5


class PageMeasurement(NamedTuple):
    """The first answer of a page: its size in KB, the queries, and the median seconds of an answer."""

    kilobytes: float
    queries: int
    seconds: float


def measure_pages() -> dict[int, PageMeasurement]:
    """Return the page of an episode by its number of steps of 64 KiB each. The database is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="wetbench-bench-") as folder, get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_in_process, (folder,))


def _measure_in_process(folder: str) -> dict[int, PageMeasurement]:
    set_up_django(f"sqlite:///{folder}/pages.sqlite3", folder)
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    (Path(folder) / "static").mkdir()  # without it, the server of static files warns
    call_command("migrate", verbosity=0)
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.create_user("ada", is_staff=True))
    addresses = {steps: f"/replication/episodes/{_create_episode(steps)}/" for steps in STEPS}
    return {steps: _measure_page(client, address) for steps, address in addresses.items()}


def _create_episode(steps: int) -> Any:
    """Create a running episode with this many steps, each of which writes a file and prints 64 KiB. Return its code."""
    from simulation.code_runs import digests, masks, stored_trees, tasks
    from simulation.code_runs.conditions import Conditions
    from simulation.models import CodeEpisode, CodeStep, Run
    from simulation.replication.tasks.workspaces import build_workspace
    from simulation.replication.values import ToolCall

    tasks.load_tasks(TASKS)
    [row] = tasks.find_tasks([TASK])
    [mask] = masks.draw_and_store(row, [1], 1, "uniform")
    terms = Conditions()
    run = Run.objects.create(
        kind="code", cast="offline-oracle", seed=steps, conditions=terms.to_json(), submission_id=f"bench-{steps}"
    )
    files = build_workspace(tasks.get_task(row), mask.functions, {})
    tree = stored_trees.store_tree(files)
    episode = CodeEpisode.objects.create(
        run=run, mask=mask, task_sha256=row.sha256, cast=run.cast, conditions=terms.to_json(), conditions_key=terms.key,
        replicate=steps, seed=1, initial=tree, present=tree, status="running", next_number=steps + 1,
    )  # fmt: skip
    for number in range(1, steps + 1):
        text = f"step {number}: <output> & more\n" * (STEP_BYTES // 30)
        after = stored_trees.store_tree({**files, "notes.txt": text.encode()})
        call = ToolCall("run_command", {"command": f"python notes.py {number}"}, "write the notes")
        step = CodeStep(
            episode=episode, number=number, tool=call.tool, request=call.to_json(), observation=text, tree_before=tree,
            tree_after=after,
        )  # fmt: skip
        step.content_sha256 = digests.compute_step_digest(step)
        step.save()
        tree = after
    CodeEpisode.objects.filter(pk=episode.pk).update(present=tree)
    return episode.code


def _measure_page(client: Any, address: str) -> PageMeasurement:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times = []
    for _ in range(ROUNDS + 1):  # the first request fills caches and is not counted
        start = time.perf_counter()
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(address)
        times.append(time.perf_counter() - start)
    if answer.status_code != 200:
        raise RuntimeError(f"{address}: {answer.status_code}")
    return PageMeasurement(len(answer.content) / 1000, len(queries), median(times[1:]))
