"""Store proofs as files, so that a task is not checked twice on the same machine."""

import json
from collections.abc import Mapping
from pathlib import Path

from simulation.replication.tasks.checking.proofs import CheckOptions, TaskProof
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.values import Task
from wetbench_site.text import hash_json

FORMAT = 2  # increase it if rules change, so that older proofs no longer count


def _find_file(
    folder: Path, slug: str, task_sha256: str, options: CheckOptions, environment: Mapping[str, str]
) -> Path:
    key = hash_json([FORMAT, task_sha256, vars(options), dict(environment)])
    return folder / f"{slug}-{key[:16]}.json"


def load_proof(folder: Path, task: Task, options: CheckOptions, environment: Mapping[str, str]) -> TaskProof | None:
    """Return the stored proof of this task, with these options and versions, or None if there is none that can be read."""
    path = _find_file(folder, task.slug, hash_task(task), options, environment)
    try:
        return TaskProof.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save_proof(folder: Path, proof: TaskProof) -> None:
    """Store a proof in the folder, which is created if it does not exist. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _find_file(folder, proof.slug, proof.task_sha256, proof.options, proof.environment)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(proof.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def find_newest_proof(folder: Path, slug: str, task_sha256: str) -> TaskProof | None:
    """Return the newest stored proof of this version of a task, whatever its options, or None if there is none that can be read."""
    try:
        paths = sorted(folder.glob(f"{slug}-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for path in paths[:50]:
        try:
            proof = TaskProof.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if proof.slug == slug and proof.task_sha256 == task_sha256:
            return proof
    return None
