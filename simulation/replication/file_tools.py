"""The tools that read and change a workspace without a sandbox: values in, values out."""

import bisect
from collections.abc import Callable, Mapping

from simulation.replication.observations import cut_observation, show_control_characters
from simulation.replication.trees import Files, find_path_problem
from simulation.replication.workspace_edits import (
    ToolRefused,
    ToolResult,
    check_paths,
    has_folder,
    keep_folder,
    name_folder,
    read_text,
    resolve_path,
    store_file,
)
from wetbench_site.text import format_count

Arguments = Mapping[str, str]
FileTool = Callable[[Arguments, Files, str], ToolResult]
MAX_LINES = 400  # lines of one read_file
MAX_MATCHES = 200  # lines of one search
_MAX_LINE = 2_000  # characters of a line that read_file shows
_MAX_MATCH = 300  # characters of a longer line that search shows


def list_files(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """List every file in a folder and below it, with its size."""
    top = resolve_path(arguments.get("folder", ""), folder)
    _check_folder(files, top)
    start = len(top) + 1 if top else 0
    lines = [f"{path[start:]}  {len(content):,} bytes" for path, content in sorted(files.items()) if _is_in(path, top)]
    return _answer(files, folder, [f"{format_count(len(lines), 'file')} in {name_folder(top)}:", *lines])


def read_file(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Show lines of a file with their numbers, at most MAX_LINES."""
    path = resolve_path(arguments["path"], folder)
    lines = read_text(files, path).removesuffix("\n").split("\n")
    first = int(arguments.get("first") or 1)
    last = min(int(arguments.get("last") or len(lines)), len(lines), first + MAX_LINES - 1)
    if first > len(lines):
        raise ToolRefused(f"{path} has {format_count(len(lines), 'line')}; first is {first}")
    shown = [f"{path}, lines {first} to {last} of {len(lines)}:"]
    for number, line in enumerate(lines[first - 1 : last], first):
        rest = f" [... {len(line) - _MAX_LINE:,} characters left out]" if len(line) > _MAX_LINE else ""
        shown.append(f"{number:>4} | {line[:_MAX_LINE]}{rest}")
    return _answer(files, folder, shown)


def search(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Show the lines that contain a text, exactly as written, in the files of a folder."""
    top, text = resolve_path(arguments.get("folder", ""), folder), arguments["text"]
    _check_folder(files, top)
    matches = [
        f"{path}:{number}: {_show_match(line, text)}"
        for path, content in sorted(files.items())
        if _is_in(path, top)
        for number, line in enumerate(content.decode(errors="replace").split("\n"), 1)
        if text in line
    ]
    heading = f"{text!r} is in {format_count(len(matches), 'line')} of {name_folder(top)}"
    more = [f"[{len(matches) - MAX_MATCHES} further lines are not shown]"] if len(matches) > MAX_MATCHES else []
    return _answer(files, folder, [heading + (":" if matches else "."), *matches[:MAX_MATCHES], *more])


def write_file(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Create a file or replace its whole text. A missing line end at the end of the text is added."""
    path, text = resolve_path(arguments["path"], folder), arguments["text"]
    text += "\n" if text and not text.endswith("\n") else ""
    verb = "replaced" if path in files else "created"
    changed = store_file(files, path, text.encode())
    return _answer(
        changed, folder, [f"{verb} {path}: {format_count(text.count(chr(10)), 'line')}, {len(changed[path]):,} bytes"]
    )


def replace(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Replace a text in a file that occurs there exactly once."""
    path, old, new = resolve_path(arguments["path"], folder), arguments["old"], arguments["new"]
    text = read_text(files, path)
    places = _find_places(text, old)
    if not places:
        raise ToolRefused(
            f"the text of `old` does not occur in {path}; it must be exactly what the file has, spaces included"
        )
    if len(places) > 1:
        starts = _number_lines(text, places[:10])
        raise ToolRefused(
            f"the text of `old` occurs more than once in {path}, at lines {', '.join(map(str, starts))}; "
            "add lines before or after it until it is unique"
        )
    changed = store_file(files, path, (text[: places[0]] + new + text[places[0] + len(old) :]).encode())
    (line,) = _number_lines(text, places)
    before, after = (format_count(part.count("\n") + 1, "line") for part in (old, new))
    return _answer(changed, folder, [f"replaced {before} by {after} at line {line} of {path}"])


def move(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Move a file or a folder to a new path. Nothing is overwritten."""
    source, target = resolve_path(arguments["from"], folder), resolve_path(arguments["to"], folder)
    if not source or target == source or target.startswith(f"{source}/"):
        raise ToolRefused(f"{source or 'the workspace'} cannot be moved to {target or 'the workspace'}")
    if target in files or has_folder(files, target):
        raise ToolRefused(f"{target or 'the workspace'} exists already; write a path that does not exist")
    moved = {path: target + path[len(source) :] for path in files if path == source or path.startswith(f"{source}/")}
    if not moved:
        raise ToolRefused(f"there is no file or folder {source}")
    changed = {path: content for path, content in files.items() if path not in moved}
    for old, new in moved.items():
        if problem := find_path_problem(new):
            raise ToolRefused(f"{new[:200]!r} cannot be used: {problem}")
        check_paths(changed, new)
        changed[new] = files[old]
    folder_after = keep_folder(changed, folder)
    remark = [] if folder_after == folder else ["the current folder is now the workspace"]
    return _answer(changed, folder_after, [f"moved {source} to {target}: {format_count(len(moved), 'file')}", *remark])


def change_folder(arguments: Arguments, files: Files, folder: str) -> ToolResult:
    """Make a folder the current one: paths are read from there and commands start there."""
    target = resolve_path(arguments["folder"], folder)
    _check_folder(files, target)
    return _answer(files, target, [f"the current folder is {name_folder(target)}"])


FILE_TOOLS: Mapping[str, FileTool] = {
    "list_files": list_files,
    "read_file": read_file,
    "search": search,
    "write_file": write_file,
    "replace": replace,
    "move": move,
    "change_folder": change_folder,
}


def _answer(files: Files, folder: str, lines: list[str]) -> ToolResult:
    return ToolResult(files, folder, cut_observation(show_control_characters("\n".join(lines))))


def _is_in(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _check_folder(files: Files, folder: str) -> None:
    if not has_folder(files, folder):
        raise ToolRefused(f"{folder} is a file" if folder in files else f"there is no folder {folder}")


def _show_match(line: str, text: str) -> str:
    """Return the part of a line that has the match, because a line of a data file may have a million characters."""
    if len(line) <= _MAX_MATCH:
        return line.strip()
    start = max(0, line.find(text) - _MAX_MATCH // 3)
    return f"[...] {line[start : start + _MAX_MATCH]} [...]"


def _find_places(text: str, part: str) -> list[int]:
    """Return where a part begins in a text, places that overlap included, at most 11."""
    places: list[int] = []
    start = text.find(part)
    while start >= 0 and len(places) < 11:
        places.append(start)
        start = text.find(part, start + 1)
    return places


def _number_lines(text: str, places: list[int]) -> list[int]:
    """Return the line numbers, from 1, of places in a text."""
    ends = [index for index, letter in enumerate(text) if letter == "\n"]
    return [bisect.bisect_left(ends, place) + 1 for place in places]
