"""Large files of items and ratings, checked and imported by a worker."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.exchange.imports import import_jobs
from ratings.models import ImportedItem, Rating, Study
from ratings.studies import lifecycle
from simulation.jobs import jobs
from simulation.models import Job
from tests.support import run_factory, study_factory
from tests.support.embedded_worker import run_until_idle

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def study(db: None) -> Study:
    run_factory.create_pool()
    return study_factory.create_open_study(slug="one", name="Study one")


def page(client: Client, job: Job, **more: Any) -> str:
    return client.get(reverse("ratings:job", args=[job.code]), **more).content.decode()


def line(number: int) -> bytes:
    """Return a transfer that leaves this volume in µL, in the format of `check_transitions`."""
    flask = {
        "barcode": "MAT-AAAAAAAA", "name": "Cells", "properties": {"volume": "10 mL"},
        "available_for_use": "available_for_further_use", "environmental_condition": "room_temp",
    }  # fmt: skip
    after = {**flask, "replaces": flask["barcode"], "properties": {"volume": f"{number} µL"}}
    del after["barcode"]
    made = {"new_materials": [after], "new_observations": [], "success": True, "failure_reason": ""}
    step = {"input_materials": [flask], "action": {"name": "Transfer", "parameters": {}}, "outcome": made}
    return json.dumps({"id": f"item-{number}", "source": "LEAK-source", "truth": "correct", **step}).encode()


def sent(*lines: bytes, name: str = "items.jsonl") -> io.BytesIO:
    file = io.BytesIO(b"\n".join(lines) + b"\n")
    file.name = name
    return file


@pytest.fixture
def draft(monkeypatch: pytest.MonkeyPatch) -> Study:
    """A draft; files of 20 lines or more are large."""
    monkeypatch.setattr(import_jobs, "MIN_JOB_LINES", 20)
    return lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_protocol(slug="draft", name="Draft", sources=[]))
    )


def test_import_job_checks_and_imports_a_large_file_in_two_steps(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    waiting = boss.post(address, {"file": sent(*map(line, range(1, 21))), "do": "check"}, follow=True)
    assert "Queued" in waiting.content.decode()
    run_until_idle()
    check = Job.objects.get()
    assert check.result["said"] == "20 items, no problems. Nothing is imported yet."
    assert not ImportedItem.objects.exists()
    shown = boss.get(check.result["href"]).content.decode()
    assert (
        "20 items in" in shown and "items.jsonl" in shown and "LEAK-source" in shown and "Import these items" in shown
    )
    assert "LEAK-source" not in page(boss, check)  # analysts see that one
    for _ in range(2):  # who presses twice imports once
        boss.post(address, {"job": str(check.code)})
        run_until_idle()
    assert ImportedItem.objects.count() == 20 and ImportedItem.objects.filter(by__username="root").count() == 20
    take = Job.objects.exclude(pk=check.pk).get()
    assert take.result["said"] == "20 items imported."


def test_import_job_can_import_removed_items_again(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    boss.post(address, {"file": sent(*map(line, range(1, 21))), "do": "check"})
    run_until_idle()
    check = Job.objects.get()
    for taken in (1, 2):
        for _ in range(2):  # who presses twice imports once
            boss.post(address, {"job": str(check.code)})
            run_until_idle()
        assert ImportedItem.objects.count() == 20
        assert list(Job.objects.exclude(pk=check.pk).values_list("status", flat=True)) == ["done"] * taken
        boss.post(address, {"do": "remove"})
        assert not ImportedItem.objects.exists()


def test_import_job_lists_problems_by_line(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    boss.post(address, {"file": sent(*map(line, range(1, 21)), b"{}"), "do": "check"})
    run_until_idle()
    check = Job.objects.get()
    shown = boss.get(f"{address}?job={check.code}").content.decode()
    assert "nothing was imported" in shown and '<span class="vh">Line </span>21' in shown
    assert "Import these items" not in shown
    assert boss.post(address, {"job": str(check.code)}).status_code == 422 and Job.objects.count() == 1


def test_import_of_a_small_file_is_checked_in_the_request(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    shown = boss.post(address, {"file": sent(*map(line, range(1, 20))), "do": "check"}).content.decode()
    assert "19 items in" in shown and not Job.objects.exists()


def test_import_job_is_retried_completely_after_a_worker_dies(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    boss.post(address, {"file": sent(*map(line, range(1, 21))), "do": "check"})
    run_until_idle()
    boss.post(address, {"job": str(Job.objects.get().code)})
    take = Job.objects.get(params__do="take")
    dead = jobs.leases.claim_row(Job, take.code)
    assert dead is not None
    Job.objects.filter(pk=take.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    run_until_idle()
    assert ImportedItem.objects.count() == 20
    jobs.run_job_unit(dead)  # the dead one wakes up: it finds the items there, and must not change the job
    take.refresh_from_db()
    assert (take.status, take.result["said"], ImportedItem.objects.count()) == ("done", "20 items imported.", 20)


def test_import_job_fails_if_the_study_changed_meanwhile(boss: Client, draft: Study) -> None:
    address = reverse("ratings:import_items", args=["draft"])
    file = b"\n".join(map(line, range(1, 21)))
    boss.post(address, {"file": sent(file), "do": "check"})
    run_until_idle()
    import_jobs.item_imports.import_file(draft, io.BytesIO(line(7)))
    boss.post(address, {"job": str(Job.objects.get().code)})
    run_until_idle()
    take = Job.objects.get(params__do="take")
    assert take.status == "failed" and take.error.startswith(
        "line 7: id: 'item-7' was already imported into this study"
    )
    assert ImportedItem.objects.count() == 1


def test_import_job_imports_a_large_table_of_ratings(boss: Client, study: Study, monkeypatch: Any) -> None:
    monkeypatch.setattr(import_jobs, "MIN_JOB_LINES", 2)
    address = reverse("ratings:import_ratings", args=["one"])
    item = study.items.first()
    assert item is not None
    boss.post(
        address, {"file": sent(b"item,rater,verdict,confidence", f"{item.code},Dr A,1,4".encode()), "do": "check"}
    )
    run_until_idle()
    check = Job.objects.get()
    shown = boss.get(check.result["href"]).content.decode()
    assert "1 rating in" in shown and "Dr A" in shown
    boss.post(address, {"job": str(check.code)})
    run_until_idle()
    assert Rating.objects.get(assignment__rater__imported_as="Dr A").imported


def test_import_job_of_another_study_is_not_accessible(boss: Client, draft: Study) -> None:
    boss.post(reverse("ratings:import_items", args=["draft"]), {"file": sent(*map(line, range(1, 21))), "do": "check"})
    run_until_idle()
    lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_protocol(slug="other", name="Other", sources=[]))
    )
    other = reverse("ratings:import_items", args=["other"])
    job = Job.objects.get()
    assert boss.post(other, {"job": str(job.code)}).status_code == 422
    assert "20 items" not in boss.get(f"{other}?job={job.code}").content.decode()
    assert boss.get(f"{other}?job=nonsense").status_code == 200
