"""python -m bench.same_outputs: compare the outputs of two versions of the code, byte for byte.

    python -m bench.same_outputs against COMMIT      write the outputs of COMMIT and of this checkout, and compare them
    python -m bench.same_outputs write FOLDER        write the outputs of this checkout
    python -m bench.same_outputs compare OLD NEW     compare two folders

The outputs come from the demo's data, created in a new SQLite database by one thread: every page, CSV file, JSON document and
figure that links lead to, the answers of the API, archives, exported episodes, agreement tables, the findings of the checker on
`fixtures/checker`, the laboratory's report, and the error messages for bad inputs (`bench/bad_inputs.py`).

The clock is fixed and random numbers are seeded, so two runs of the same code give the same bytes. Code that draws random
numbers in another order gets other codes, tokens and digests; these are therefore replaced: codes by their order of appearance in
the file, the others by a constant. Exits with 1 if any file differs.
"""

import argparse
import difflib
import io
import json
import logging
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from bench.bad_inputs import FIXTURES, list_bad_inputs, list_bad_laboratory_files

ROOT = Path(__file__).resolve().parent.parent
URLS_PER_VIEW = {"ratings:figure": 200, "ratings:table_csv": 200, "ratings:benchmark_figure": 50}
DEFAULT_URLS_PER_VIEW = 8  # more pages of the same kind show no more of the code
SKIPPED_VIEWS = ("logout", "metrics", "readyz")
ENDINGS = {"text/html": "html", "application/json": "json", "text/csv": "csv", "image/svg+xml": "svg"}
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
REPLACEMENTS = (
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"\.[0-9a-f]{12}\.(css|js|svg|woff2)"), r".HASH.\1"),
    (re.compile(r'(name="csrfmiddlewaretoken" value=|"X-CSRFToken": |nonce=)"[^"]+"'), r'\1"TOKEN"'),
    (re.compile(r"(/sign-in/|/r/|cursor=)[\w%-]{20,}"), r"\1TOKEN"),  # a cursor is signed with the time
    (re.compile(r"\brater-[0-9a-f]{10}\b"), "rater-NAME"),
)


def normalise_text(text: str) -> str:
    """Return the text with digests, tokens and codes replaced; the same code gets the same number within a text."""
    for pattern, replacement in REPLACEMENTS:
        text = pattern.sub(replacement, text)
    codes: dict[str, str] = {}
    return UUID.sub(lambda match: codes.setdefault(match[0], f"CODE-{len(codes) + 1}"), text)


class Outputs:
    """A folder of normalised outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        path = self.folder / re.sub(r"[^\w./=-]", "_", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            try:
                content = content.decode()
            except UnicodeDecodeError:
                path.write_bytes(content)
                return
        path.write_text(normalise_text(content), encoding="utf-8")


def set_up_django(var_dir: str) -> None:
    """Use a new SQLite database in a folder, a fixed clock and the same random numbers in every run."""
    os.environ.update(
        WETBENCH_VAR_DIR=var_dir, DJANGO_SETTINGS_MODULE="wetbench_site.settings", SECRET_KEY="same-outputs" * 5
    )
    os.environ.pop("DATABASE_URL", None)
    # uuid, secrets and random.SystemRandom all read one of these two names.
    os.urandom = random._urandom = random.Random(1).randbytes  # type: ignore[attr-defined]
    import django
    from django.utils import timezone

    timezone.now = lambda: datetime(2026, 6, 1, 12, tzinfo=UTC)
    django.setup()
    logging.disable(logging.CRITICAL)


def run_command(*args: str, stdin: str = "") -> str:
    """Return what `manage.py` would print, with its exit code."""
    from django.core.management import call_command
    from django.core.management.base import CommandError

    out, progress, code = io.StringIO(), io.StringIO(), 0
    standard_input, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(progress):
            call_command(*args, stdout=out, stderr=progress)
    except CommandError as error:
        out.write(f"CommandError: {error}\n")
        code = error.returncode
    except SystemExit as error:
        out.write("" if isinstance(error.code, int | None) else f"{error.code}\n")
        code = error.code if isinstance(error.code, int) else 1
    except Exception as error:  # a traceback is an output too, and to be found
        out.write(f"UNEXPECTED {type(error).__name__}: {error}\n")
        code = 99
    finally:
        sys.stdin = standard_input
    # Progress lines come in the order in which processes finish.
    return f"{out.getvalue()}{progress.getvalue() if code else ''}exit code {code}\n"


def create_site() -> None:
    """Create the demo with one thread."""
    from django.core.management import call_command

    call_command("demo", "--make-only")


def list_links(html: str, base: str) -> Iterator[str]:
    """Yield the paths of the site that a page links to, with their query."""
    for link in re.findall(r'(?:href|hx-get|src)="([^"#]+)', html):
        url = urlsplit(urljoin(base, link.replace("&amp;", "&")))
        if not url.netloc and not url.path.startswith(("/static/", "/admin/")) and url.scheme == "":
            yield url.path + (f"?{url.query}" if url.query else "")


def crawl_site(outputs: Outputs, role: str, client: Any, start: str) -> None:
    """Store every response that links lead to, at most `URLS_PER_VIEW` of each view."""
    from django.urls import Resolver404, resolve

    waiting, seen, counts = [start], {start}, Counter[str]()
    while waiting:
        address = waiting.pop(0)
        try:
            view = resolve(urlsplit(address).path).view_name
        except Resolver404:
            continue
        counts[view] += 1
        if view in SKIPPED_VIEWS or counts[view] > URLS_PER_VIEW.get(view, DEFAULT_URLS_PER_VIEW):
            continue
        response = client.get(address)
        content = b"".join(response.streaming_content) if response.streaming else response.content
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        name = f"{role}/{view.replace(':', '/')}/{counts[view]}"
        if kind == "application/zip":
            write_archive(outputs, name, content)
            continue
        heading = f"{response.status_code} {UUID.sub('CODE', address)} {response.headers.get('Location', '')}\n"
        outputs.write(f"{name}.{ENDINGS.get(kind, 'txt')}", heading.encode() + content)
        if kind == "text/html":
            for link in [*list_links(content.decode(), address), response.headers.get("Location", "")]:
                if link and link not in seen:
                    seen.add(link)
                    waiting.append(link)


def write_archive(outputs: Outputs, name: str, content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            outputs.write(f"{name}/{member.filename.partition('/')[2] or member.filename}", archive.read(member))


def write_pages(outputs: Outputs) -> None:
    """Store the pages, tables, documents and figures of an admin and of a rater."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username="admin"))
    crawl_site(outputs, "admin", client, "/")

    from ratings import demonstration

    links, rater = demonstration.create_demo_links(), Client(SERVER_NAME="127.0.0.1")
    page = rater.get(links.rater).content
    outputs.write("rater/link.html", page)
    profile = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "chemistry", "years": "7", "consent": "on"}
    outputs.write("rater/profile.html", rater.post(links.rater, profile, follow=True).content)
    crawl_site(outputs, "rater", rater, "/")


def write_api_answers(outputs: Outputs) -> None:
    """Store the description of the API and an answer of each of its addresses."""
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1")
    description = client.get("/api/v1/openapi.json").json()
    outputs.write("api/openapi.json", json.dumps(description, indent=1))
    from ratings.api.tokens import SCOPE_DESCRIPTIONS

    flags = [part for scope in SCOPE_DESCRIPTIONS for part in ("--scope", scope)]
    token = run_command("api_token", "create", "admin", "--name", "comparison", *flags).split()[0]
    headers = {"Authorization": f"Bearer {token}"}
    for path in sorted(description["paths"], key=lambda path: path.count("{")):
        names = re.findall(r"\{(\w+)\}", path)
        address = path
        for name in names:
            address = address.replace(f"{{{name}}}", find_value(client, headers, path, name))
        for query in ("", "?limit=3", "?limit=0", "?cursor=x"):
            response = client.get(address + query, headers=headers)
            content = b"".join(response.streaming_content) if response.streaming else response.content
            outputs.write(f"api{path}/{query[1:] or 'all'}.json", f"{response.status_code}\n".encode() + content)


def find_value(client: Any, headers: dict[str, str], path: str, name: str) -> str:
    """Return a value for a parameter of a path: the first of the list one level above."""
    if name == "other":
        return "demo-evidence"
    above = path.partition(f"/{{{name}}}")[0]
    while "{" in above:
        inner = re.findall(r"\{(\w+)\}", above)[0]
        above = above.replace(f"{{{inner}}}", find_value(client, headers, above, inner))
    row = client.get(above, headers=headers).json()["data"][0]
    return str(next(row[key] for key in (name, "slug", above.rstrip("s").rpartition("/")[2]) if key in row))


def write_command_outputs(outputs: Outputs, var_dir: Path) -> None:
    """Store what the commands print and the files they write."""
    from ratings.models import Study
    from simulation.models import Run

    for study in Study.objects.order_by("pk"):
        for options in ([], ["--blinded"]):
            name = f"commands/{study.slug}{''.join(options)}"
            table = run_command("export_ratings", study.slug, *options)
            outputs.write(f"{name}/ratings.csv", table)
            folder = var_dir / f"{study.slug}{''.join(options)}"
            outputs.write(
                f"{name}/export_study.txt",
                run_command("export_study", study.slug, str(folder), *options).replace(str(var_dir), "VAR"),
            )
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    outputs.write(f"{name}/archive/{path.relative_to(folder)}", path.read_bytes())
            if study.status == "unblinded" or options:
                rows = table.rpartition("exit code")[0]
                for form in ([], ["--json"]):
                    arguments = ("agreement", "-", "--resamples", "200", *form)
                    outputs.write(f"{name}/agreement{''.join(form)}.txt", run_command(*arguments, stdin=rows))
    for number, run in enumerate(Run.objects.order_by("pk")):
        for command in ("export_episodes", "record_run"):
            path = var_dir / f"{command}-{number}"
            outputs.write(
                f"commands/run-{number}/{command}.txt",
                run_command(command, str(run.code), str(path)).replace(str(var_dir), "VAR"),
            )
            if path.exists():
                outputs.write(f"commands/run-{number}/{command}.jsonl", path.read_bytes())
    outputs.write("commands/verify.txt", run_command("verify"))
    for form in ([], ["--json"]):
        outputs.write(f"commands/lab_report{''.join(form)}.txt", run_command("lab_report", *form))
        for path in sorted((ROOT / "fixtures/checker").glob("*.jsonl")):
            name = f"checker/{path.stem}{''.join(form)}.txt"
            outputs.write(name, run_command("check_transitions", str(path), *form))


def write_error_messages(outputs: Outputs, var_dir: Path) -> None:
    """Store the messages for bad inputs."""
    for bad_input in list_bad_inputs():
        path = var_dir / bad_input.file_name
        path.write_bytes(bad_input.content)
        arguments = [str(path) if part == "FILE" else part for part in bad_input.arguments]
        outputs.write(f"errors/{bad_input.name}.txt", run_command(*arguments).replace(str(var_dir), "VAR"))
    for name, path, content in list_bad_laboratory_files():
        folder = var_dir / f"laboratory-{name}"
        shutil.copytree(FIXTURES, folder, ignore=shutil.ignore_patterns("checker"))
        (folder / path).write_bytes(content)
        printed = run_command("load_lab", "--directory", str(folder))
        outputs.write(f"errors/laboratory/{name}.txt", printed.replace(str(var_dir), "VAR"))


def write_outputs(folder: Path) -> None:
    """Write all outputs of this checkout."""
    outputs = Outputs(folder)
    with tempfile.TemporaryDirectory() as var_dir:
        set_up_django(var_dir)
        create_site()
        for write in (write_pages, write_api_answers):
            write(outputs)
        write_command_outputs(outputs, Path(var_dir))
        write_error_messages(outputs, Path(var_dir))


def write_outputs_of(checkout: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that writes the outputs of another checkout with this script."""
    # The modules of the other checkout come first; an older one has no bench.same_outputs, which is then this one's.
    environ = os.environ | {"PYTHONPATH": f"{checkout}:{ROOT}"}
    command = [sys.executable, "-P", "-m", "bench.same_outputs", "write", str(folder)]
    return subprocess.Popen(command, cwd=checkout, env=environ)


def compare_folders(old: Path, new: Path, lines: int = 12) -> int:
    """Print every difference; return the number of files that differ."""
    names = sorted({str(path.relative_to(top)) for top in (old, new) for path in top.rglob("*") if path.is_file()})
    differing = 0
    for name in names:
        before, after = (_read_lines(top / name) for top in (old, new))
        if before == after:
            continue
        differing += 1
        print(f"=== {name}")
        for line in list(difflib.unified_diff(before, after, "old", "new", n=0, lineterm=""))[2 : 2 + lines]:
            print(line[:300])
    print(f"{len(names)} files, {differing} different")
    return differing


def _read_lines(path: Path) -> list[str]:
    if not path.exists():
        return ["(no such file)"]
    text = path.read_bytes().decode(errors="replace")
    if path.suffix == ".json" and text.count("\n") < 3:  # one long line shows no place
        text = text.replace(",", ",\n")
    return text.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("write").add_argument("folder", type=Path)
    compare = actions.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    actions.add_parser("against").add_argument("commit")
    options = parser.parse_args()
    if options.action == "write":
        if os.environ.get("PYTHONHASHSEED") != "0":
            os.execve(sys.executable, sys.orig_argv, os.environ | {"PYTHONHASHSEED": "0"})
        return write_outputs(options.folder.resolve())
    if options.action == "compare":
        sys.exit(compare_folders(options.old, options.new) > 0)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        subprocess.run(["git", "worktree", "add", "--detach", top / "checkout", options.commit], cwd=ROOT, check=True)
        try:
            processes = [write_outputs_of(top / "checkout", top / "old"), write_outputs_of(ROOT, top / "new")]
            codes = [process.wait() for process in processes]
            if any(codes):
                sys.exit("the outputs could not be written")
            differing = compare_folders(top / "old", top / "new")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", top / "checkout"], cwd=ROOT, check=True)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
