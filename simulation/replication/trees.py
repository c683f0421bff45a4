"""Workspaces as values: relative path -> content. Everything that a sandbox returns passes `take_files` first."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Files = Mapping[str, bytes]
MAX_FILES, MAX_FILE_BYTES, MAX_TREE_BYTES = 400, 2**20, 16 * 2**20
MAX_PATH_LENGTH, MAX_DEPTH = 200, 12
MAX_NAME_BYTES = 255  # NAME_MAX of Linux: a sandbox with a longer name would not start


class TakenFiles(NamedTuple):
    """Accepted files, and each rejected one with its reason."""

    files: dict[str, bytes]
    left_out: tuple[str, ...]


def find_path_problem(path: str) -> str:
    """Return why a path may not be part of a workspace, or "". Paths are relative, in NFC, printable and without dot folders."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH_LENGTH or len(parts) > MAX_DEPTH:
        return f"a path has 1 to {MAX_PATH_LENGTH} characters and at most {MAX_DEPTH} levels"
    if not path.isprintable() or unicodedata.normalize("NFC", path) != path or "\\" in path:
        return "a path consists of printable characters in NFC, without backslashes"
    if any(part in ("", ".", "..") for part in parts):
        return "a path is relative and has no empty parts"
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return f"a name has at most {MAX_NAME_BYTES} bytes in UTF-8"
    if any(part.startswith(".") or part == "__pycache__" for part in parts):
        return "hidden folders and caches are not kept"
    return ""


def take_files(entries: Iterable[tuple[str, bytes]]) -> TakenFiles:
    """Return the entries that a workspace may hold, in order of path; the rest is named with its reason."""
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    total = 0
    for path, content in sorted(entries):
        problem = find_path_problem(path)
        ends = [*(place for place, character in enumerate(path) if character == "/"), len(path)]
        if not problem and any(path[:end] in files for end in ends):
            problem = "one of its folders is a file, or the path occurs twice"
        if not problem and (
            len(files) >= MAX_FILES or len(content) > MAX_FILE_BYTES or total + len(content) > MAX_TREE_BYTES
        ):
            problem = f"more than {MAX_FILES} files, 1 MiB in a file or 16 MiB in all"
        if problem:
            if len(left_out) < 50:
                left_out.append(f"{path[:MAX_PATH_LENGTH]!r}: {problem}")
        else:
            files[path] = content
            total += len(content)
    return TakenFiles(files, tuple(left_out))


def hash_blob(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def hash_tree(files: Files) -> str:
    """Return the digest of a tree: of the sorted pairs of path and digest of the content."""
    entries = [[path, hash_blob(content)] for path, content in sorted(files.items())]
    return hash_entries(entries)


def hash_entries(entries: Iterable[Iterable[str]]) -> str:
    """Return the digest of pairs of path and digest, in the order given."""
    text = json.dumps([list(entry) for entry in entries], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
