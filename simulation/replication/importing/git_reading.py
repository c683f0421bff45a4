"""Read the files of one commit of a Git repository, without a checkout.

Git runs with a new, empty repository whose only objects are those of the source. The configuration, hooks, attributes, filters, replacements
of objects and remotes of the source are never read: a hostile configuration could start programs, for example to fetch missing objects.
"""

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from simulation.replication.importing.reading import MAX_ENTRIES, ImportFault
from simulation.replication.trees import find_path_problem

_SECONDS = 60  # of one call of Git
_MAX_LISTING = 8 * 2**20  # bytes
_ENTRY = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(-|\d+)\t([^\0]*)\0")
_REGULAR = (b"100644", b"100755")


class GitEntry(NamedTuple):
    """An entry of a commit. `size` is -1 for links and submodules."""

    path: str
    blob: str
    size: int


class GitCommit:
    """The files of a commit below a folder. `open_commit` creates one."""

    def __init__(self, environment: Mapping[str, str], commit: str, folder: str) -> None:
        self.commit = commit
        self._environment = environment
        self._folder = folder

    def list_entries(self) -> list[GitEntry]:
        """Return the entries below the folder, with paths relative to it. Raises ImportFault."""
        place = f"{self.commit}:{self._folder}"
        listing = self._run("ls-tree", "-r", "-l", "-z", "--full-tree", place, most=_MAX_LISTING)
        entries = []
        for mode, kind, blob, size, path in _ENTRY.findall(listing):
            is_file = kind == b"blob" and mode in _REGULAR
            name = path.decode("utf-8", "backslashreplace")
            entries.append(GitEntry(name, blob.decode(), int(size) if is_file else -1))
        if not entries or len(entries) > MAX_ENTRIES:
            raise ImportFault([f"{place}: has {len(entries)} files; allowed: 1 to {MAX_ENTRIES:,}"])
        return entries

    def read_blob(self, entry: GitEntry, most: int) -> bytes:
        """Return the content of an entry. Raises ImportFault if it is not a regular file, or has more than `most` bytes."""
        if entry.size < 0:
            raise ImportFault([f"{entry.path}: is a link or a submodule; allowed: a regular file"])
        if entry.size > most:
            raise ImportFault([f"{entry.path}: has {entry.size:,} bytes; allowed: a file of at most {most:,}"])
        return self._run("cat-file", "blob", entry.blob, most=most)

    def _run(self, *arguments: str, most: int) -> bytes:
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    ["git", "--no-pager", *arguments],
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
            except OSError as error:
                raise ImportFault([f"git cannot be started: {error.strerror}"]) from error
            timer = threading.Timer(_SECONDS, process.kill)
            timer.start()
            with process:
                assert process.stdout is not None
                content = process.stdout.read(most + 1)
                if len(content) > most:
                    process.kill()
            timer.cancel()
            errors.seek(0)
            reason = errors.read(300).decode(errors="replace").strip()
        if len(content) > most:
            raise ImportFault([f"git {arguments[0]}: returned more than {most:,} bytes"])
        if process.returncode:
            raise ImportFault([f"git {arguments[0]} {arguments[-1]}: {reason or f'ended with {process.returncode}'}"])
        return content


@contextmanager
def open_commit(repository: Path, commit: str, folder: str = "") -> Iterator[GitCommit]:
    """Open a commit of a repository on this machine, named by its full hash. Raises ImportFault.

    `folder` is a path inside the commit, "" for all of it.
    """
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
        raise ImportFault(
            [f"--commit: is {commit!r}; allowed: the full hash of a commit, as `git rev-parse` prints it"]
        )
    if folder and (problem := find_path_problem(folder)):
        raise ImportFault([f"--folder: is {folder!r}: {problem}"])
    objects = _find_objects(repository)
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            "PATH": os.defpath,
            "HOME": empty,
            "GIT_DIR": empty,
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        is_sha256 = len(commit) == 64
        Path(empty, "HEAD").write_text("ref: refs/heads/none\n")
        Path(empty, "refs").mkdir()
        extension = "[extensions]\n\tobjectformat = sha256\n" if is_sha256 else ""
        version = f"[core]\n\trepositoryformatversion = {int(is_sha256)}\n\tbare = true\n"
        Path(empty, "config").write_text(version + extension)
        source = GitCommit(environment, commit, folder)
        kind = source._run("cat-file", "-t", commit, most=100).strip()
        if kind != b"commit":
            raise ImportFault([f"--commit: {commit} is a {kind.decode(errors='replace')}; allowed: a commit"])
        yield source


def _find_objects(repository: Path) -> Path:
    """Return the folder with the objects of a repository. A .git that is a file is not followed. Raises ImportFault."""
    for objects in (repository / ".git" / "objects", repository / "objects"):
        if objects.is_dir():
            if objects.is_symlink() or objects.parent.is_symlink():
                raise ImportFault([f"{objects}: is a link; allowed: a repository with its own objects"])
            return objects.resolve()
    raise ImportFault(
        [f"{repository}: is not a Git repository with its own objects; allowed: a clone, or a bare clone"]
    )
