"""What is kept under a digest: data files, prompts, texts of calls, and files of jobs in their pieces."""

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.db.models import Q

from simulation.casts import setups
from simulation.jobs import job_files
from simulation.llm.prompts import prompt_sets
from simulation.models import CallText, CatalogueEntry, Experiment, JobChunk, JobFile, PromptSet, Run
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_AT_ONCE = 8  # pieces of 256 KiB


@check("data of experiments", "an experiment has the digest of its data", Experiment)
def data_of_experiments() -> Iterator[Wrong]:
    for slug, data, sha in rows(Experiment.objects.order_by("pk").values_list("slug", "data", "sha256")):
        if _digest(data) != sha:
            yield wrong(Experiment, slug, sha, _digest(data))


@check("data of actions", "an action of the catalogue has the digest of its data", CatalogueEntry)
def data_of_actions() -> Iterator[Wrong]:
    entries = CatalogueEntry.objects.order_by("pk").exclude(sha256="")
    for name, data, sha in rows(entries.values_list("name", "data", "sha256")):
        if _digest(data) != sha:
            yield wrong(CatalogueEntry, name, sha, _digest(data))


@check("setups of runs", "a run was played by the setup whose digest it bears", Run)
def setups_of_runs() -> Iterator[Wrong]:
    for code, setup, sha in rows(Run.objects.order_by("pk").values_list("code", "setup", "setup_sha256")):
        if setups.digest(setup) != sha:
            yield wrong(Run, code, sha or "no digest", setups.digest(setup) or "no digest")


@check("texts of prompt sets", "a prompt set has the texts whose digest it bears", PromptSet)
def texts_of_prompt_sets() -> Iterator[Wrong]:
    for name, files, sha in rows(PromptSet.objects.order_by("pk").values_list("name", "files", "sha256")):
        if (found := prompt_sets.content_hash(files)) != sha:
            yield wrong(PromptSet, name, sha, found)


@check("stored texts of calls", "a text on the shelf has the digest that it is found under", CallText)
def texts_on_the_shelf() -> Iterator[Wrong]:
    for sha, text in rows(CallText.objects.order_by("pk").values_list("sha256", "text")):
        if (found := hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()) != sha:
            yield wrong(CallText, sha, sha, found)


@check(
    "pieces of files", "a file of a job is whole: its pieces are in order, and its size and digest are theirs", JobFile
)
def pieces_of_files() -> Iterator[Wrong]:
    pieces = JobChunk.objects.order_by("file_id", "number").values_list("file_id", "number", "data")
    found: dict[int, tuple[int, str, str]] = {}
    for file, own in groupby(pieces.iterator(chunk_size=_AT_ONCE), lambda piece: piece[0]):
        found[file] = _whole(own)
    finished = JobFile.objects.order_by("pk").filter(~Q(sha256=""))
    for pk, name, size, sha in rows(finished.values_list("pk", "name", "size", "sha256")):
        held, digest, problem = found.get(pk, (0, hashlib.sha256().hexdigest(), ""))
        if problem or (held, digest) != (size, sha):
            yield wrong(JobFile, f"{pk} {name}", f"{size} bytes, {sha}", problem or f"{held} bytes, {digest}")


def _whole(pieces: Iterator[tuple[int, int, Any]]) -> tuple[int, str, str]:
    """Size, digest, and what is wrong with how it was cut."""
    digest, size, last, problem = hashlib.sha256(), 0, job_files.PIECE, ""
    for place, (_, number, data) in enumerate(pieces):
        if number != place or last != job_files.PIECE:
            problem = problem or f"piece {number} in place {place}, after one of {last} bytes"
        last = len(data)
        size += last
        digest.update(bytes(data))
    return size, digest.hexdigest(), problem


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


CHECKS = (
    data_of_experiments, data_of_actions, setups_of_runs, texts_of_prompt_sets, texts_on_the_shelf, pieces_of_files,
)  # fmt: skip
