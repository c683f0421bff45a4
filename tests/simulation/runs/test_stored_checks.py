"""check_transitions --stored checks stored rows once."""

import pytest
from django.core.management import CommandError, call_command

from simulation.models import Transition, Twin


@pytest.fixture
def played(transactional_db: None, lab: None, capsys: pytest.CaptureFixture[str]) -> None:
    """An episode with twins. Not in one transaction: the commands' threads would wait for it for 20 s each."""
    call_command("run_episodes", experiment="caffeine-hplc-analysis", seed=1, wait=True, threads=1)
    call_command("make_twins", experiment="caffeine-hplc-analysis", error="both", seed=2, wait=True, threads=1)
    capsys.readouterr()


def table(capsys: pytest.CaptureFixture[str]) -> dict[str, list[int]]:
    """Row name -> counts for originals, obvious and subtle twins."""
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["original", "obvious", "subtle"]
    return {row.split()[0]: [int(count) for count in row.split()[1:]] for row in rows}


def verdicts(found: dict[str, list[int]], kind: int) -> int:
    return sum(found[verdict][kind] for verdict in ("ok", "undecidable", "error"))


def test_stored_check_covers_only_rows_without_findings(played: None, capsys) -> None:
    before = dict(Transition.objects.values_list("pk", "findings"))
    gap = Transition.objects.order_by("pk").first()
    lost = Twin.objects.filter(status="done", perturbation="obvious").order_by("pk").first()
    Transition.objects.filter(pk=gap.pk).update(findings=None)
    Twin.objects.filter(pk=lost.pk).update(findings=None)
    call_command("check_transitions", stored=True)
    found = table(capsys)
    # one original and one obvious twin had none
    assert [verdicts(found, kind) for kind in range(3)] == [1, 1, 0]
    gap.refresh_from_db()
    assert gap.findings == before[gap.pk]
    assert Twin.objects.get(pk=lost.pk).findings == lost.findings
    call_command("check_transitions", stored=True)
    found = table(capsys)
    assert [verdicts(found, kind) for kind in range(3)] == [0, 0, 0]


def test_stored_check_with_the_option_again_checks_all_rows_and_counts_codes_by_kind(played: None, capsys) -> None:
    Transition.objects.update(findings={"verdict": "stale", "findings": []})
    call_command("check_transitions", stored=True, again=True)
    found = table(capsys)
    done = Twin.objects.filter(status="done")
    wanted = [Transition.objects.count(), *(done.filter(perturbation=kind).count() for kind in ("obvious", "subtle"))]
    assert [verdicts(found, kind) for kind in range(3)] == wanted
    assert not Transition.objects.filter(findings__verdict="stale").exists()
    # The protocol agent makes no errors, so codes are found in twins only.
    codes = {name: counts for name, counts in found.items() if name.startswith("L")}
    assert found["error"][0] == 0 and found["error"][1] > 0
    assert codes and all(counts[0] == 0 for counts in codes.values())


def test_stored_check_counts_unreadable_rows_and_continues(played: None, capsys) -> None:
    broken = Transition.objects.order_by("pk").first()
    Transition.objects.update(findings=None)
    Transition.objects.filter(pk=broken.pk).update(step={})
    with pytest.raises(CommandError, match="1 rows could not be checked") as refused:
        call_command("check_transitions", stored=True)
    assert refused.value.returncode == 1
    assert set(Transition.objects.filter(findings__isnull=True).values_list("pk", flat=True)) == {broken.pk}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either a file to check or --stored"),
        ({"file": "lines.jsonl", "stored": True}, "not both"),
        ({"file": "lines.jsonl", "again": True}, "--again requires --stored"),
        ({"stored": True, "json": True}, "cannot be combined with --json"),
    ],
)
def test_check_transitions_accepts_a_file_or_stored_but_not_both(options: dict[str, object], said: str) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        call_command("check_transitions", **options)
    assert refused.value.returncode == 2
