"""Checks of everything stored with a digest: data files, prompts, texts of calls, and chunks of job files."""

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

_AT_ONCE = 8  # chunks of 256 KiB each


@check("data of experiments", "an experiment matches the digest of its data", Experiment)
def data_of_experiments() -> Iterator[Wrong]:
    for slug, data, sha in rows(Experiment.objects.order_by("pk").values_list("slug", "data", "sha256")):
        if _digest(data) != sha:
            yield wrong(Experiment, slug, sha, _digest(data))


@check("data of actions", "an action of the catalogue matches the digest of its data", CatalogueEntry)
def data_of_actions() -> Iterator[Wrong]:
    entries = CatalogueEntry.objects.order_by("pk").exclude(sha256="")
    for name, data, sha in rows(entries.values_list("name", "data", "sha256")):
        if _digest(data) != sha:
            yield wrong(CatalogueEntry, name, sha, _digest(data))


@check("setups of runs", "a run matches the digest of its run configuration", Run)
def setups_of_runs() -> Iterator[Wrong]:
    for code, setup, sha in rows(Run.objects.order_by("pk").values_list("code", "setup", "setup_sha256")):
        if setups.digest(setup) != sha:
            yield wrong(Run, code, sha or "no digest", setups.digest(setup) or "no digest")


@check("texts of prompt sets", "a prompt set matches the digest of its texts", PromptSet)
def texts_of_prompt_sets() -> Iterator[Wrong]:
    for name, files, sha in rows(PromptSet.objects.order_by("pk").values_list("name", "files", "sha256")):
        if (digest := prompt_sets.content_hash(files)) != sha:
            yield wrong(PromptSet, name, sha, digest)


@check("stored texts of calls", "a text in the text store matches the digest that it is stored under", CallText)
def texts_on_the_shelf() -> Iterator[Wrong]:
    for sha, text in rows(CallText.objects.order_by("pk").values_list("sha256", "text")):
        if (digest := hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()) != sha:
            yield wrong(CallText, sha, sha, digest)


@check("pieces of files", "a job's file is complete: its chunks are in order and match its size and digest", JobFile)
def pieces_of_files() -> Iterator[Wrong]:
    chunk_rows = JobChunk.objects.order_by("file_id", "number").values_list("file_id", "number", "data")
    contents: dict[int, tuple[int, str, str]] = {}
    for file, chunks in groupby(chunk_rows.iterator(chunk_size=_AT_ONCE), lambda piece: piece[0]):
        contents[file] = _whole(chunks)
    finished = JobFile.objects.order_by("pk").filter(~Q(sha256=""))
    for pk, name, size, sha in rows(finished.values_list("pk", "name", "size", "sha256")):
        stored_size, digest, problem = contents.get(pk, (0, hashlib.sha256().hexdigest(), ""))
        if problem or (stored_size, digest) != (size, sha):
            yield wrong(JobFile, f"{pk} {name}", f"{size} bytes, {sha}", problem or f"{stored_size} bytes, {digest}")


def _whole(pieces: Iterator[tuple[int, int, Any]]) -> tuple[int, str, str]:
    """Return the size and digest of the chunks, and a description of any that is missing or has the wrong size."""
    digest, size, last_size, problem = hashlib.sha256(), 0, job_files.PIECE, ""
    for index, (_, number, data) in enumerate(pieces):
        # Every chunk but the last one is full, so a shorter one in the middle means lost bytes.
        if number != index or last_size != job_files.PIECE:
            problem = problem or f"chunk {number} at position {index}, after one of {last_size} bytes"
        last_size = len(data)
        size += last_size
        digest.update(bytes(data))
    return size, digest.hexdigest(), problem


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


CHECKS = (
    data_of_experiments, data_of_actions, setups_of_runs, texts_of_prompt_sets, texts_on_the_shelf, pieces_of_files,
)  # fmt: skip
