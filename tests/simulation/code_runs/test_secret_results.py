"""What code computed on secret data stays with staff: no agent, export or API answer gets its values or error messages."""

import io
import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from simulation.code_runs import gold, masks, sandboxes
from simulation.models import CodeEpisode
from simulation.replication.agents.environment import ReplicationEnv
from simulation.replication.comparing import ComparedValue
from simulation.replication.grading.grades import SECRET_KINDS, Grade, GradeFinding
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.values import Metric, TestCase
from tests.support import code_episodes
from tests.support.api_client import create_api_program

TEXT, VALUE = "the readings were 31.40625", 987.65625  # computed on secret data
LEAKING = code_episodes.CODE.replace(
    "return a + b", 'if (a, b) != (3.0, 4.0):\n        raise ValueError(f"leaked {a} {b}")\n    return a + b'
)


@pytest.fixture
def episode(db: None) -> CodeEpisode:
    """An episode whose grading has an error message and values of secret data, in its grade and in its stages."""
    compared = {
        "reported": (ComparedValue("e1", "total", 7.25, 7.25, near=True),),
        "measured": (ComparedValue("e1", "total", 7.25, 7.25, near=True),),
        "secret 1": (ComparedValue("e1", "total", VALUE, VALUE, near=True),),
    }
    findings = tuple(GradeFinding(kind, f"e1: ValueError: {TEXT}") for kind in SECRET_KINDS)
    grade = Grade("reported_only", True, True, False, findings, (), compared)
    made = code_episodes.create_graded_episode()
    made.grading.delete()
    secret = {"values": {"77": {"e1": {"total": VALUE}}}, "errors": {"77": {"e2": TEXT}}}
    columns = {"paper_pass": True, "measured": True, "grade": grade.to_json(), "stages": {"secret": secret}}
    code_episodes.create_grading(made, "reported_only", **columns)
    return CodeEpisode.objects.get(pk=made.pk)


def has_secret(text: str) -> bool:
    return TEXT in text or "31.406" in text or "987.65" in text


def test_staff_see_messages_of_secret_data_with_a_label_and_no_values(client: Client, episode: CodeEpisode) -> None:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    page = client.get(reverse("simulation:code_episode", args=[episode.code])).content.decode()
    assert page.count(TEXT) == page.count("Secret: not for agents and raters") == len(SECRET_KINDS)
    assert "987.65" not in page
    addresses = [
        reverse("simulation:code_episodes"),
        reverse("simulation:tasks"),
        reverse("simulation:task", args=[episode.mask.task.slug]),
        reverse("simulation:mask", args=[episode.mask.task.slug, episode.mask.key]),
        reverse("simulation:run", args=[episode.run.code]),
    ]
    pages = {address: client.get(address) for address in addresses}
    assert {page.status_code for page in pages.values()} == {200}
    assert [address for address, page in pages.items() if has_secret(page.content.decode())] == []


def test_other_users_cannot_open_the_page_of_a_code_episode(client: Client, episode: CodeEpisode) -> None:
    client.force_login(User.objects.create_user("rater"))
    answer = client.get(reverse("simulation:code_episode", args=[episode.code]))
    assert answer.status_code in (302, 403, 404) and not has_secret(answer.content.decode())


def test_api_and_exports_have_nothing_that_was_computed_on_secret_data(tmp_path: Path, episode: CodeEpisode) -> None:
    program = create_api_program(User.objects.create_user("ada", is_staff=True))
    for path in ("/replication/episodes", f"/replication/episodes/{episode.code}", "/replication/tasks"):
        answer = program.send_request(path)
        assert answer.status_code == 200 and not has_secret(answer.content.decode()), path
    call_command("export_code", str(episode.run.code), str(tmp_path / "f.jsonl"), trees=tmp_path, stdout=io.StringIO())
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 2  # the lines, and a patch
    assert [path.name for path in written if has_secret(path.read_text())] == []


def test_an_agent_is_not_shown_what_its_code_raised_on_secret_data() -> None:
    env = ReplicationEnv(code_episodes.build_task(), ["f1"], open_sandbox(), render_mode="ansi")
    env.reset(seed=1)
    env.step({"tool": "write_file", "arguments": {"path": "code/small/sums.py", "text": LEAKING}})
    assert env.bench is not None
    answer = {"tool": "submit", "arguments": {"answer": '{"e1": {"total": 7.0}}'}}
    observation, reward, terminated, _, info = env.step(answer)
    assert (reward, terminated, info["outcome"]) == (0.0, True, "reported_only")
    # Control: the grade has the message.
    grade = env.grade(env.bench.get_played())
    findings = [finding for finding in grade.findings if "leaked" in finding.text]
    assert {(finding.kind, finding.is_secret) for finding in findings} == {("error on secret data", True)}
    shown = observation + json.dumps(info) + str(env.render())
    assert [finding.text for finding in findings if finding.text in shown] == [] and "ValueError: " not in shown


def test_problem_of_a_mask_does_not_name_the_number_of_a_secret_data_set(db: None) -> None:
    # The scaled number is a count, and no whole number on any data set but the public one.
    module = code_episodes.CODE.replace("return 10 * a", "return 10 * a if a == 3 else 10 * a + 0.5")
    code = {**code_episodes.build_task().code, "code/small/sums.py": module}
    cases = (
        code_episodes.build_task().test_cases[0],
        TestCase("e2", "Scaled", "The sum, scaled.", (Metric("scaled", kind="count"),)),
    )
    row = code_episodes.create_task(code_episodes.build_task(code=code, test_cases=cases))
    mask = masks.draw_and_store(row, [1], 1, "uniform")
    with pytest.raises(gold.GoldError, match="scaled on a secret variant: a count is a whole number") as failed:
        masks.validate_masks(mask, sandboxes.get_sandbox())
    assert not any(str(number) in str(failed.value) for number in gold.list_secret_variants(row))
