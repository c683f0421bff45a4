"""Stored text with control characters in every command: the terminal gets none of them."""

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, load_command_class

from ratings.api import tokens
from ratings.models import Study
from simulation.management.command_options import ProgressLine
from simulation.models import Episode, Experiment, PromptSet, Run, Transition
from tests.support import run_factory, study_factory
from wetbench_site.safe_output import SafeCommand, SafeOutput

# Clears the screen, sets the window's title, turns the direction of text, deletes, begins a line anew, moves with C1 codes.
HOSTILE = "a\x1b[2J\x1b]0;title\x07\u202eb\u2066\u2028\x7f\x08\rc\x9b31m\u200f\ud800d"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STORABLE = HOSTILE.replace("\ud800", "")
ROOMS = ("ratings", "simulation", "wetbench_site")
COMMANDS = sorted(
    (room, path.stem)
    for room in ROOMS
    for path in (Path(settings.BASE_DIR) / room / "management" / "commands").glob("[a-z]*.py")
)
# Wrap Django's own commands and print no stored text. Their colours are part of the texts that they write.
OF_DJANGO = {"createsuperuser", "migrate", "runserver"}


def test_every_command_is_a_safe_command_except_those_of_django() -> None:
    unsafe = {name for room, name in COMMANDS if not isinstance(load_command_class(room, name), SafeCommand)}
    assert unsafe == OF_DJANGO and len(COMMANDS) > 30


@pytest.mark.parametrize(("room", "name"), [pair for pair in COMMANDS if pair[1] not in OF_DJANGO])
def test_command_prints_text_and_errors_without_control_characters(
    room: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command: Any = load_command_class(room, name)

    def print_hostile_text(*_args: Any, **_options: Any) -> None:
        command.stdout.write(HOSTILE)
        command.stderr.write(HOSTILE)
        raise CommandError(HOSTILE)

    monkeypatch.setattr(command, "handle", print_hostile_text)
    monkeypatch.setattr(command, "add_arguments", lambda parser: None)
    command.requires_system_checks = []
    with pytest.raises(SystemExit):
        command.run_from_argv(["manage.py", name])
    printed = capsys.readouterr()
    assert printed.out == "a[2J]0;titlebc31md\n" and printed.err == 2 * "a[2J]0;titlebc31md\n"
    # Streams that the caller gives are wrapped as well.
    command._called_from_command_line = False
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError):
        call_command(command, stdout=out, stderr=err)
    assert out.getvalue() == err.getvalue() == "a[2J]0;titlebc31md\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_data_for_a_file_is_exact_and_safe_on_a_terminal() -> None:
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        SafeOutput(stream).write_data("a\x1b[2J,b\r\n")
    assert (file.getvalue(), terminal.getvalue()) == ("a\x1b[2J,b\r\n", "a[2J,b\n")


def test_progress_lines_contain_no_control_characters_of_texts() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    ProgressLine("x", terminal).show_progress(HOSTILE)
    ProgressLine("x", pipe).show_progress(HOSTILE, last=True)
    SafeOutput(terminal).rewrite_line(HOSTILE, is_last=True)
    line = "\r\x1b[Ka[2J]0;titlebc31md"
    assert (terminal.getvalue(), pipe.getvalue()) == (f"{line}{line}\n", "a[2J]0;titlebc31md\n")


@pytest.mark.django_db
@pytest.mark.usefixtures("audit_in_place")
def test_commands_print_hostile_rows_without_control_characters(
    admin_user: User, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Rows as no form accepts them, such as those of an import or of an older version."""
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=6)
    Study.objects.update(name=f"Study {STORABLE}")
    study.raters.filter(label="R01").update(label="R\x1b[2J")
    User.objects.filter(pk=admin_user.pk).update(username=f"ada{STORABLE}")
    admin_user.refresh_from_db()
    tokens.create_token(admin_user, "token", ["studies:read"], 5)
    Experiment.objects.update(name=STORABLE, goal=STORABLE)
    PromptSet.objects.create(name=STORABLE, sha256="e" * 64, files={"transition.user.txt": STORABLE})
    Transition.objects.filter(pk=Transition.objects.earliest("pk").pk).update(content_sha256=STORABLE)
    run = Run.objects.create(submission_id="hostile", kind="episodes", cast=STORABLE, seed=1)
    Episode.objects.filter(pk=Episode.objects.latest("pk").pk).update(
        status="failed", error=STORABLE, reason="internal"
    )
    for arguments in (
        ("sign_in_link", "nobody"),
        ("sign_in_link", admin_user.username),
        ("api_token", "list"),
        ("reset_second_step", admin_user.username),
        ("unblind", study.slug, "--by", "nobody"),
        ("unblind", STORABLE, "--by", admin_user.username),
        ("audit_blinding", study.slug),
        ("rater_link", study.slug, "R99"),
        ("invite_raters", study.slug, tmp_path / STORABLE.replace("/", "")),
        ("remind_raters", study.slug),
        ("export_study", study.slug, tmp_path / "x.zip"),
        ("import_items", study.slug, str(tmp_path / "none")),
        ("rate_with_model", study.slug, "--model", STORABLE),
        ("prompts", "list"),
        ("prompts", "show", f"{STORABLE}@{'e' * 12}"),
        ("make_twins", "--experiment", STORABLE),
        ("run_episodes", "--cast", STORABLE),
        ("record_run", str(run.code), str(tmp_path / "y" / STORABLE)),
        ("check_transitions", "--stored"),
        ("verify",),
    ):
        try:
            call_command(*map(str, arguments))
        except CommandError as error:
            # As `manage.py` prints it.
            SafeOutput(sys.stderr).write(str(error))
        except SystemExit:
            pass
        printed = capsys.readouterr()
        assert printed.out or printed.err, arguments
        assert not CONTROL.findall(printed.out + printed.err), arguments
