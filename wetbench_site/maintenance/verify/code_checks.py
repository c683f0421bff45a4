"""Rules that replication tasks, stored workspaces, code episodes, their sandboxes and gradings must meet in every database."""

import math
from collections.abc import Iterator
from itertools import groupby

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from simulation.code_runs import digests, sandboxes, stored_trees
from simulation.lab.errors import LabError
from simulation.models import Blob, CodeEpisode, CodeStep, Grading, ReplicationTask, SandboxRun, Tree
from simulation.replication.tasks.task_files import hash_task, task_from_json
from simulation.replication.tools import TOOLS
from simulation.replication.trees import hash_blob, hash_entries
from wetbench_site.maintenance.verify.checks import (
    Violation,
    build_check,
    build_digest_check,
    build_violation,
    iter_rows,
    report_rows,
)

_EPISODES = CodeEpisode.objects.order_by("pk")


@build_check("stored files", Blob)
def check_blobs() -> Iterator[Violation]:
    """A stored file has the digest and the size that it is stored under."""
    # One at a time: a file may have a megabyte.
    for sha, size, packed in (
        Blob.objects.order_by("pk").values_list("sha256", "size", "packed").iterator(chunk_size=50)
    ):
        try:
            content = stored_trees.unpack_blob(packed)
        except LabError as error:
            yield build_violation(Blob, sha, "a packed file", error)
            continue
        if (hash_blob(content), len(content)) != (sha, size):
            yield build_violation(Blob, sha, f"{size} bytes, {sha}", f"{len(content)} bytes, {hash_blob(content)}")


@build_check("stored workspaces", Tree)
def check_trees() -> Iterator[Violation]:
    """A workspace has the digest that it is stored under, and all its files are stored."""
    known = dict(Blob.objects.values_list("sha256", "size"))
    for sha, entries, files, size in iter_rows(
        Tree.objects.order_by("pk").values_list("sha256", "entries", "files", "bytes")
    ):
        if (digest := hash_entries(entries)) != sha:
            yield build_violation(Tree, sha, sha, digest)
        elif missing := sorted(path for path, blob in entries if blob not in known):
            yield build_violation(Tree, sha, "the content of every file", f"none of {', '.join(missing)}")
        elif (files, size) != (actual := (len(entries), sum(known[blob] for _, blob in entries))):
            yield build_violation(Tree, sha, f"{actual[0]} files, {actual[1]} bytes", f"{files} files, {size} bytes")


@build_check("numbers of code steps", CodeEpisode)
def check_step_numbers() -> Iterator[Violation]:
    """The steps of a code episode are numbered from 1 to its next number, without gaps."""
    counted = _EPISODES.annotate(
        n=Count("steps"), first=Min("steps__number"), last=Max("steps__number"), done=F("next_number") - 1
    )
    broken = counted.exclude(n=0, next_number=1).exclude(first=1, last=F("n"), done=F("n"))
    yield from report_rows(broken, "steps 1 to {done}", "{n} steps, {first} to {last}")


@build_check("workspaces of code steps", CodeStep)
def check_step_trees() -> Iterator[Violation]:
    """A step starts with the workspace that the step before it left, and the last one left the present workspace."""
    columns = ("episode_id", "number", "tree_before_id", "tree_after_id")
    steps = CodeStep.objects.order_by("episode_id", "number").values_list(
        *columns, "episode__code", "episode__initial_id", "episode__present_id"
    )
    for _, rows in groupby(iter_rows(steps), lambda row: row[0]):
        expected, last = "", None
        for last in rows:
            _, number, before, after, code, initial, _ = last
            expected = expected or initial
            if before != expected:
                yield build_violation(CodeStep, f"{code}, step {number}", f"workspace {expected}", before)
            expected = after
        if last and expected != last[6]:
            yield build_violation(CodeEpisode, last[4], f"workspace {expected}", last[6])


@build_check("contents of code steps", CodeStep)
def check_step_contents() -> Iterator[Violation]:
    """A code step matches its digest, and only an unreadable reply has no request."""
    for step in CodeStep.objects.order_by("pk").select_related("episode").iterator(chunk_size=100):
        name = f"{step.episode.code}, step {step.number}"
        if (digest := digests.compute_step_digest(step)) != step.content_sha256:
            yield build_violation(CodeStep, name, step.content_sha256, digest)
        if (step.request is None) != (step.outcome == "unreadable"):
            yield build_violation(CodeStep, name, f"{step.outcome}, with its request", "the opposite")


@build_check("phases of code episodes", CodeEpisode)
def check_phases() -> Iterator[Violation]:
    """A code episode has a call while a sandbox or the helper works on it, and an ending in the grading phases, and only then."""
    needs_call = Q(phase__in=("sandbox", "helper"))
    in_grading = Q(phase__in=CodeEpisode.GRADING_PHASES)
    yield from report_rows(_EPISODES.filter(needs_call, pending__isnull=True), "phase {phase}: a call", "none")
    yield from report_rows(_EPISODES.filter(in_grading, ending=""), "phase {phase}: an ending", "none")
    early = _EPISODES.exclude(in_grading).exclude(ending="")
    yield from report_rows(early, "phase {phase}: no ending", "{ending}")


@build_check("ends of graded episodes", CodeEpisode)
def check_gradings() -> Iterator[Violation]:
    """A code episode that its agent ended has a grading and ended as was noted before; no other has a grading."""
    gradings = Grading.objects.filter(episode=OuterRef("pk"))
    by_agent = Q(status__in=CodeEpisode.ENDINGS)
    yield from report_rows(_EPISODES.filter(by_agent).exclude(Exists(gradings)), "{status}: a grading", "none")
    yield from report_rows(_EPISODES.exclude(by_agent).filter(Exists(gradings)), "{status}: no grading", "one")
    yield from report_rows(_EPISODES.filter(by_agent).exclude(status=F("ending")), "ended as {ending}", "{status}")


@build_check("retries of code episodes", CodeEpisode)
def check_retries() -> Iterator[Violation]:
    """Only the last retry of a replicate of a mask counts."""
    retries = CodeEpisode.objects.filter(retry_of=OuterRef("pk"))
    yield from report_rows(_EPISODES.filter(Exists(retries), counts=True), "retried, so it does not count", "it counts")
    same = {f"retry_of__{name}": F(name) for name in ("mask", "cast", "conditions_key", "replicate")}
    different = _EPISODES.filter(retry_of__isnull=False).exclude(**same)
    expected = "the mask, cast, conditions and replicate of the episode it retries"
    yield from report_rows(different, expected, "different ones")


@build_check("states of sandboxes", SandboxRun)
def check_sandbox_runs() -> Iterator[Violation]:
    """An ended sandbox has its time and a completed one its result; no sandbox runs for an episode that has ended."""
    rows = SandboxRun.objects.order_by("pk")
    open_ended = Q(state="started") ^ Q(ended_at__isnull=True)
    lacks_result = Q(state="done", seconds__isnull=True) | Q(state="fault", error="")
    code = "{episode__code}, {purpose} {number}"
    expected, found = "{state}, with its time and its result", "ended {ended_at}, seconds {seconds}"
    yield from report_rows(rows.filter(open_ended | lacks_result), expected, found, code)
    left_over = rows.filter(state="started", episode__status__in=CodeEpisode.ENDED)
    yield from report_rows(left_over, "no sandbox of an episode that is {episode__status}", "started", code)
    unknown_fence = rows.filter(fence__gt=F("episode__fence"))
    yield from report_rows(unknown_fence, "a fence up to {episode__fence}", "{fence}", code)


@build_check("sandboxes of code steps", SandboxRun)
def check_step_sandboxes() -> Iterator[Violation]:
    """The sandbox of a step had its workspace and command and ended as its observation states, and the seconds of an episode add up."""
    runs = SandboxRun.objects.filter(purpose="tool", state="done", number__lt=F("episode__next_number"))
    in_sandbox = CodeStep.objects.filter(
        tool__in=[name for name, tool in TOOLS.items() if tool.kind == "sandbox"], refused=False
    )
    same_step = runs.filter(episode=OuterRef("episode"), number=OuterRef("number"))
    lacking = in_sandbox.exclude(Exists(same_step)).order_by("pk")
    yield from report_rows(lacking, "a sandbox that is done", "none", "{episode__code}, step {number}")
    # Of several for one step, the one under the newest fence was committed with it.
    ordered = runs.order_by("episode_id", "number", "-fence", "-index").select_related("episode")
    for _, rows in groupby(iter_rows(ordered), lambda run: run.episode_id):
        latest: dict[int, SandboxRun] = {}
        for run in rows:
            latest.setdefault(run.number, run)
        episode, total = run.episode, sum(run.seconds or 0 for run in latest.values())
        if not math.isclose(total, episode.sandbox_seconds, abs_tol=0.001):
            yield build_violation(SandboxRun, episode.code, f"{episode.sandbox_seconds:.3f} s", f"{total:.3f} s")
        for step in CodeStep.objects.filter(episode=episode, number__in=latest):
            yield from _compare_step(step, latest[step.number], f"{episode.code}, step {step.number}")


def _compare_step(step: CodeStep, run: SandboxRun, code: str) -> Iterator[Violation]:
    if run.tree_in_id != step.tree_before_id:
        yield build_violation(SandboxRun, code, f"workspace {step.tree_before_id}", run.tree_in_id)
    if step.tool == "run_command" and step.request:
        command = sandboxes.clean_command(step.request["arguments"]["command"])
        if run.command != command:
            yield build_violation(SandboxRun, code, f"the command {command}", run.command)
    ending = "stopped: " if run.killed else f"exit status {run.exit} after {run.seconds or 0:.1f} s"
    if ending not in step.observation and not step.refused:
        yield build_violation(SandboxRun, code, step.observation.split("\n")[0], ending)


@build_check("contents of gradings", Grading)
def check_grading_contents() -> Iterator[Violation]:
    """A grading matches its digest, and only a grading with the outcome solved is solved."""
    for grading in Grading.objects.order_by("pk").select_related("episode").iterator(chunk_size=100):
        if (digest := digests.compute_grading_digest(grading)) != grading.sha256:
            yield build_violation(Grading, grading.episode.code, grading.sha256, digest)
        if grading.solved != (grading.outcome == "solved"):
            yield build_violation(Grading, grading.episode.code, f"solved: {not grading.solved}", grading.outcome)


CODE_CHECKS = (
    check_blobs, check_trees, check_step_numbers, check_step_trees, check_step_contents, check_phases, check_gradings, check_retries,
    check_sandbox_runs, check_step_sandboxes, check_grading_contents,
    build_digest_check(
        "data of replication tasks", "a replication task matches the digest of its data",
        ReplicationTask, ("slug", "data", "sha256"), lambda data: hash_task(task_from_json(data)),
    ),
)  # fmt: skip
