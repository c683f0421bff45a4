"""Paths and changes of a workspace. Arguments of tools are hostile: each path and size is checked before a change."""

import posixpath
from typing import NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.sandbox.base import WORKSPACE
from simulation.replication.trees import MAX_FILE_BYTES, MAX_FILES, MAX_TREE_BYTES, Files, find_path_problem


class ToolRefused(LabError):  # noqa: N818  # a result, not an error
    """A tool that cannot do what its arguments state. The message is the observation of the agent."""


class ToolResult(NamedTuple):
    """The workspace, current folder and observation after a tool. A refused tool leaves files and folder as they were."""

    files: Files
    folder: str
    observation: str
    refused: bool = False


def resolve_path(written: str, folder: str) -> str:
    """Return the path in the workspace that an agent means; "" is the workspace itself.

    Relative paths start at the current folder; "/workspace/..." is the path inside a sandbox. Raises ToolRefused for a path
    that is outside the workspace or that a workspace may not hold.
    """
    whole = posixpath.normpath(posixpath.join(WORKSPACE, folder, written))
    # POSIX gives two leading slashes a meaning of their own, and normpath keeps them.
    path = posixpath.relpath("/" + whole.lstrip("/"), WORKSPACE)
    if path == ".":
        return ""
    if path == ".." or path.startswith("../"):
        raise ToolRefused(f"{written[:200]!r} is outside the workspace, which is {WORKSPACE}")
    if problem := find_path_problem(path):
        raise ToolRefused(f"{written[:200]!r} cannot be used: {problem}")
    return path


def has_folder(files: Files, folder: str) -> bool:
    """Return whether a folder exists. Folders exist by their files; the workspace itself always exists."""
    return not folder or any(path.startswith(f"{folder}/") for path in files)


def keep_folder(files: Files, folder: str) -> str:
    """Return the current folder, or the workspace itself if a tool removed the folder."""
    return folder if has_folder(files, folder) else ""


def name_folder(folder: str) -> str:
    return f"{folder}/" if folder else "the workspace"


def read_text(files: Files, path: str) -> str:
    """Return the text of a file. Raises ToolRefused if there is none, or if it is not text in UTF-8."""
    if path not in files:
        is_folder = has_folder(files, path)
        raise ToolRefused(f"{path or 'the workspace'} is a folder" if is_folder else f"there is no file {path}")
    try:
        return files[path].decode()
    except UnicodeDecodeError:
        raise ToolRefused(f"{path} is not text in UTF-8; it has {len(files[path]):,} bytes") from None


def store_file(files: Files, path: str, content: bytes) -> dict[str, bytes]:
    """Return the workspace with that file. Raises ToolRefused if a path or a size does not allow it."""
    if len(content) > MAX_FILE_BYTES:
        raise ToolRefused(f"{path} would have {len(content):,} bytes; a file has at most {MAX_FILE_BYTES:,}")
    changed = {**files, path: content}
    check_paths(changed, path)
    if len(changed) > MAX_FILES:
        raise ToolRefused(f"the workspace would have {len(changed)} files; it has at most {MAX_FILES}")
    if (total := sum(map(len, changed.values()))) > MAX_TREE_BYTES:
        raise ToolRefused(f"the workspace would have {total:,} bytes; it has at most {MAX_TREE_BYTES:,}")
    return changed


def check_paths(files: Files, path: str) -> None:
    """Raise ToolRefused if a file of the workspace has the path of a folder."""
    if not path or has_folder(files, path):
        raise ToolRefused(f"{path or 'the workspace'} is a folder; write the path of a file")
    parts = path.split("/")
    for end in range(1, len(parts)):
        if (parent := "/".join(parts[:end])) in files:
            raise ToolRefused(f"{parent} is a file, so {path} cannot be in it")
