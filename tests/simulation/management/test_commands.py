"""Commands: what they print, and how they end."""

import pytest
from django.core.management import CommandError, call_command

from simulation.models import Episode, Experiment, Run, Twin


@pytest.mark.both_databases
def test_run_episodes_with_wait_runs_here_if_no_worker_is_running(
    lab: None, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("run_episodes", experiment="zebrafish-genotyping", attempts=1, seed=1, wait=True, threads=1)
    assert Episode.objects.get().status == "submitted"
    said = capsys.readouterr()
    assert "1 episode queued, seed 1" in said.out and "1 of 1 ended" in said.err


@pytest.mark.both_databases
def test_run_episodes_without_wait_queues_and_reports_that_no_worker_is_running(lab: None, capsys) -> None:
    call_command("run_episodes", experiment="all", attempts=2)
    assert set(Episode.objects.values_list("status", flat=True)) == {"queued"}
    assert Episode.objects.count() == 2 * Experiment.objects.count() == 36
    assert "make worker" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"experiment": "coffee"}, "Known experiments: .*caffeine-hplc-analysis"),
        ({"cast": "gpt-9"}, "Known casts: offline, offline-lapses, offline-random"),
        ({"attempts": 0}, "--attempts must be from 1 to 1000"),
        ({"seed": 2**31}, "The seed is 2147483648; it must be from 0 to 2147483647"),
        ({"seed": -1}, "The seed is -1"),
    ],
)
def test_run_episodes_exits_with_2_and_a_hint_on_bad_arguments(
    lab: None, options: dict[str, object], said: str
) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        call_command("run_episodes", **options)
    assert refused.value.returncode == 2
    assert not Episode.objects.exists()


@pytest.mark.both_databases
def test_run_episodes_exits_with_1_and_the_reason_if_episodes_fail(lab: None, capsys) -> None:
    experiment = Experiment.objects.get(slug="zebrafish-genotyping")
    experiment.data["protocol"] = [{}]  # as if a newer release had loaded a file that this one cannot parse
    experiment.sha256 = "f" * 64
    experiment.save()
    with pytest.raises(CommandError, match="1 of 1 episodes failed or are blocked") as refused:
        call_command("run_episodes", experiment="zebrafish-genotyping", wait=True, threads=1)
    assert refused.value.returncode == 1
    assert "1 failed (cause: WetBench): internal error. The worker's log has the details" in capsys.readouterr().err


def test_make_twins_without_episodes_reports_what_to_do_first(lab: None) -> None:
    with pytest.raises(CommandError, match="run_episodes --wait") as refused:
        call_command("make_twins")
    assert refused.value.returncode == 2


@pytest.mark.django_db(
    transaction=True
)  # inside the test's transaction, the sweeper would wait for SQLite until its timeout
@pytest.mark.both_databases
def test_make_twins_creates_both_error_types(lab: None) -> None:
    call_command("run_episodes", experiment="caffeine-hplc-analysis", seed=1, wait=True, threads=1)
    call_command("make_twins", experiment="caffeine-hplc-analysis", error="both", seed=2, wait=True, threads=1)
    done = Twin.objects.filter(status="done")
    assert set(done.values_list("perturbation", flat=True)) == {"obvious", "subtle"}
    assert done.count() > Twin.objects.count() / 2


@pytest.mark.parametrize("command", ["run_episodes", "make_twins", "work", "worker"])
@pytest.mark.parametrize("threads", ["0", "-1", "401", "two"])
def test_threads_argument_out_of_range_is_refused(lab: None, command: str, threads: str) -> None:
    with pytest.raises(CommandError, match="not a whole number from 1 to 400"):
        call_command(command, "--threads", threads)
    assert not Episode.objects.exists()


@pytest.mark.both_databases
def test_make_twins_without_steps_creates_no_run(lab: None) -> None:
    with pytest.raises(CommandError, match="No accepted step of minicell-uptake has ended yet"):
        call_command("make_twins", "--experiment", "minicell-uptake")
    assert not Run.objects.exists()
