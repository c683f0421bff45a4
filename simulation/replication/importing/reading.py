"""Read the files of a source that is not trusted: sizes are limited, links are not followed, and only regular files are opened."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from simulation.lab.errors import LabError
from simulation.replication.tasks.imported_parts import MAX_DATA_BYTES, MAX_DATA_FILES, MAX_IMPORTED_FILES
from simulation.replication.trees import MAX_FILE_BYTES, find_path_problem
from wetbench_site.text import format_count

MAX_MODULE_BYTES = 200_000
DATA_SUFFIXES = (".csv", ".dat", ".json", ".jsonl", ".npy", ".npz", ".tsv", ".txt", ".xml", ".yaml", ".yml")
MAX_ENTRIES = 20_000  # files and folders of one source
MAX_LISTED = 50  # files that are left out and named; the rest is counted


class ImportFault(LabError):  # noqa: N818  # several problems
    """A source that cannot be imported. `problems` lists every fault with its file; nothing was written."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass
class Selection:
    """The paths of a source that are imported, those that are left out with the reason, and what prevents the import."""

    modules: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    too_large: int = 0  # data files that are left out because of their size or number
    problems: list[str] = field(default_factory=list)


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises ImportFault for links, devices, and larger files."""
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = "is a link, and links are not followed" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise ImportFault([f"{path.name}: {reason}"]) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ImportFault([f"{path.name}: allowed: a regular file"])
        content = file.read(most + 1)
    if len(content) > most:
        raise ImportFault([f"{path.name}: has {status.st_size:,} bytes; allowed: at most {most:,}"])
    return content


def read_text(path: Path, most: int) -> str:
    """Return the text of a file with line breaks as \\n. Raises ImportFault."""
    return decode_text(path.name, read_file(path, most))


def decode_text(name: str, content: bytes) -> str:
    """Return UTF-8 text without its byte order mark. Raises ImportFault for other bytes, NUL and form feeds."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportFault([f"{name}: is not UTF-8: {error.reason} at byte {error.start}"]) from error
    if "\0" in text or "\f" in text:
        raise ImportFault([f"{name}: allowed: text without NUL and form feed"])
    return text.replace("\r\n", "\n").replace("\r", "\n")


def list_files(root: Path) -> Iterator[tuple[str, int]]:
    """Yield path and size of every file below `root`; the size is -1 for links and devices. Raises ImportFault."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in [*(name for name in folders if Path(folder, name).is_symlink()), *sorted(names)]:
            path = Path(folder, name)
            status = path.lstat()
            yield path.relative_to(root).as_posix(), status.st_size if stat.S_ISREG(status.st_mode) else -1
        count += len(folders) + len(names)
        if count > MAX_ENTRIES:
            raise ImportFault([f"{root.name}: has more than {MAX_ENTRIES:,} files; allowed: fewer"])


def select_files(entries: Iterable[tuple[str, int]]) -> Selection:
    """Return which files are imported: Python modules, and small data files. `entries` are path and size, as `list_files` yields them."""
    selection, total, others = Selection(), 0, 0
    for path, size in sorted(entries):
        problem = find_path_problem(path)
        suffix = PurePosixPath(path).suffix.lower()
        if size < 0:
            selection.left_out.append(f"{path!r}: is a link or not a regular file")
        elif problem and "hidden" not in problem:
            selection.left_out.append(f"{path[:200]!r}: {problem}")
        elif problem or suffix not in (".py", *DATA_SUFFIXES):
            others += 1
        elif suffix == ".py":
            selection.modules.append(path)
            if size > MAX_MODULE_BYTES:
                selection.problems.append(f"{path}: has {size:,} bytes; allowed for a module: {MAX_MODULE_BYTES:,}")
        elif size > MAX_FILE_BYTES or total + size > MAX_DATA_BYTES or len(selection.data) >= MAX_DATA_FILES:
            limit = f"1 MiB in a file, {MAX_DATA_FILES} files and {MAX_DATA_BYTES // 2**20} MiB in all"
            selection.left_out.append(f"{path}: has {size:,} bytes; allowed for data: {limit}")
            selection.too_large += 1
        else:
            selection.data.append(path)
            total += size
    if len(selection.modules) > MAX_IMPORTED_FILES:
        number = len(selection.modules)
        selection.problems.append(f"has {number} modules; allowed: at most {MAX_IMPORTED_FILES}")
    if others:
        selection.left_out.append(
            f"{format_count(others, 'file')} that can be neither a Python module nor data, or in a hidden folder"
        )
    if (more := len(selection.left_out) - MAX_LISTED) > 0:
        selection.left_out[MAX_LISTED:] = [f"{more} more files"]
    return selection
