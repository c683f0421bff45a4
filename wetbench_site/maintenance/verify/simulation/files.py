"""Checks of everything stored with a digest: data files, prompts, texts of calls, and chunks of job files."""

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.db.models import Q

from simulation.casts import run_config
from simulation.jobs import job_files
from simulation.llm.prompts import prompt_sets
from simulation.models import CallText, CatalogueEntry, Experiment, JobChunk, JobFile, PromptSet, Run
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_CHUNKS_PER_FETCH = 8  # chunks of 256 KiB each


@build_check("data of experiments", "an experiment matches the digest of its data", Experiment)
def check_experiment_digests() -> Iterator[Violation]:
    for slug, data, sha in iter_rows(Experiment.objects.order_by("pk").values_list("slug", "data", "sha256")):
        if _hash_data(data) != sha:
            yield build_violation(Experiment, slug, sha, _hash_data(data))


@build_check("data of actions", "an action of the catalogue matches the digest of its data", CatalogueEntry)
def check_action_digests() -> Iterator[Violation]:
    entries = CatalogueEntry.objects.order_by("pk").exclude(sha256="")
    for name, data, sha in iter_rows(entries.values_list("name", "data", "sha256")):
        if _hash_data(data) != sha:
            yield build_violation(CatalogueEntry, name, sha, _hash_data(data))


@build_check("setups of runs", "a run matches the digest of its run configuration", Run)
def check_run_configurations() -> Iterator[Violation]:
    for code, setup, sha in iter_rows(Run.objects.order_by("pk").values_list("code", "setup", "setup_sha256")):
        if run_config.hash_config(setup) != sha:
            yield build_violation(Run, code, sha or "no digest", run_config.hash_config(setup) or "no digest")


@build_check("texts of prompt sets", "a prompt set matches the digest of its texts", PromptSet)
def check_prompt_digests() -> Iterator[Violation]:
    for name, files, sha in iter_rows(PromptSet.objects.order_by("pk").values_list("name", "files", "sha256")):
        if (digest := prompt_sets.compute_hash(files)) != sha:
            yield build_violation(PromptSet, name, sha, digest)


@build_check("stored texts of calls", "a text in the text store matches the digest that it is stored under", CallText)
def check_stored_texts() -> Iterator[Violation]:
    for sha, text in iter_rows(CallText.objects.order_by("pk").values_list("sha256", "text")):
        if (digest := hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()) != sha:
            yield build_violation(CallText, sha, sha, digest)


@build_check(
    "pieces of files", "a job's file is complete: its chunks are in order and match its size and digest", JobFile
)
def check_file_chunks() -> Iterator[Violation]:
    chunk_rows = JobChunk.objects.order_by("file_id", "number").values_list("file_id", "number", "data")
    contents: dict[int, tuple[int, str, str]] = {}
    for file, chunks in groupby(chunk_rows.iterator(chunk_size=_CHUNKS_PER_FETCH), lambda piece: piece[0]):
        contents[file] = _summarise_chunks(chunks)
    finished = JobFile.objects.order_by("pk").filter(~Q(sha256=""))
    for pk, name, size, sha in iter_rows(finished.values_list("pk", "name", "size", "sha256")):
        stored_size, digest, problem = contents.get(pk, (0, hashlib.sha256().hexdigest(), ""))
        if problem or (stored_size, digest) != (size, sha):
            yield build_violation(
                JobFile, f"{pk} {name}", f"{size} bytes, {sha}", problem or f"{stored_size} bytes, {digest}"
            )


def _summarise_chunks(chunks: Iterator[tuple[int, int, Any]]) -> tuple[int, str, str]:
    """Return the size and digest of the chunks, and a description of any that is missing or has the wrong size."""
    digest, size, last_size, problem = hashlib.sha256(), 0, job_files.PIECE_SIZE, ""
    for index, (_, number, data) in enumerate(chunks):
        # Every chunk but the last one is full, so a shorter one in the middle means lost bytes.
        if number != index or last_size != job_files.PIECE_SIZE:
            problem = problem or f"chunk {number} at position {index}, after one of {last_size} bytes"
        last_size = len(data)
        size += last_size
        digest.update(bytes(data))
    return size, digest.hexdigest(), problem


def _hash_data(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


CHECKS = (
    check_experiment_digests, check_action_digests, check_run_configurations, check_prompt_digests, check_stored_texts, check_file_chunks,
)  # fmt: skip
