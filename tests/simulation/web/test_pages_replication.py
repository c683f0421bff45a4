"""Pages of replication tasks: gallery, task, mask, code episode, list and order form."""

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from simulation.code_runs import creation, masks, stored_trees
from simulation.models import CodeEpisode, GoldResult, Mask, Run
from simulation.replication.comparing import ComparedValue
from simulation.replication.grading import Grade, GradeFinding
from simulation.replication.values import ToolCall
from simulation.runs import create
from simulation.web.replication.text_previews import compare_files, preview_text
from tests.support import code_episodes, code_worlds

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", is_staff=True))
    return client


def get_page(client: Client, name: str, *args: Any, query: str = "", **options: Any) -> str:
    answer = client.get(f"{reverse(f'simulation:{name}', args=args)}{query}", **options)
    assert answer.status_code == 200, answer.status_code
    return re.sub(r"\s+", " ", html.unescape(answer.content.decode()))


def store_gold() -> None:
    row = code_episodes.create_task()
    GoldResult.objects.create(
        task=row, task_sha256=row.sha256, variant=0, profile="full", data=code_episodes.create_workspace(),
        values={"e1": {"total": 7.25}, "e2": {"scaled": 72.5}}, made_with={},
    )  # fmt: skip


def create_wrong_episode(replicate: int = 1) -> CodeEpisode:
    """Create an episode whose reported total is right and whose code gives another one on the public and on secret data."""
    fields = {"status": "submitted", "ending": "submitted", "phase": "probe"}
    episode = code_episodes.create_code_episode(replicate=replicate, **fields)
    compared = {
        "reported": (ComparedValue("e1", "total", 7.25, 7.25, near=True),),
        "measured": (ComparedValue("e1", "total", 7.25, 9.5, near=False),),
        "secret 1": (ComparedValue("e1", "total", 123.0625, 55.5, near=False),),
    }
    finding = GradeFinding("gold number in code", "f1 has 7.25 <b>bold</b>")
    grade = Grade(
        "reported_only", True, False, False, (finding,), ("run.py",), compared, {"bodies": {"f1": "return 7.25"}}
    )
    code_episodes.create_grading(
        episode, "reported_only", paper_pass=True, measured=False, robust=False, grade=grade.to_json()
    )
    return episode


def test_task_page_withholds_reference_values_until_staff_press_show_gold(
    staff: Client, caplog: pytest.LogCaptureFixture
) -> None:
    store_gold()
    slug = code_episodes.create_task().slug
    page = get_page(staff, "task", slug)
    assert '<span class="slot">[withheld]</span>' in page and "7.25" not in page and "72.5" not in page
    assert staff.get(reverse("simulation:task_gold", args=[slug])).status_code == 405
    shown = staff.post(reverse("simulation:task_gold", args=[slug]))
    assert '<span class="slot">7.25</span>' in shown.content.decode() and "72.5" in shown.content.decode()
    assert "no-store" in shown.headers["Cache-Control"]
    assert [record.message for record in caplog.records].count("reference values of a task shown") == 1


def test_task_page_lists_calls_and_masks_without_reference_bodies(staff: Client) -> None:
    mask = code_episodes.create_mask(index=1)
    page = get_page(staff, "task", mask.task.slug)
    assert "Experiment e1: Sum" in page and "code/small/sums.py" in page and "not measured here" in page
    assert mask.key in page and "return a + b" not in page
    shown = get_page(staff, "mask", mask.task.slug, mask.key)
    assert 'raise NotImplementedError("hidden")' in shown and "Return the sum." in shown and "return a + b" not in shown
    assert "draw_masks --task small-sums --n 1 --per-n 1 --mode uniform --seed 1 --validate" in html.unescape(shown)


def test_gallery_counts_solved_code_episodes_of_one_cast_and_labels_rules(staff: Client) -> None:
    mask = code_episodes.create_mask()
    for replicate, outcome in enumerate(("solved", "wrong", "solved", "fault"), 1):
        episode = code_episodes.create_code_episode(mask, replicate=replicate, status="submitted", ending="submitted")
        code_episodes.create_grading(episode, outcome)
    page = get_page(staff, "tasks")
    assert "n = 1: 2 of 3 solved" in page  # the fault is nobody's attempt
    assert page.count("Rules, not a model.") == 1


def test_outcome_shows_values_beside_each_other_and_no_secret_value(staff: Client) -> None:
    page = get_page(staff, "code_episode", create_wrong_episode().code)
    row = re.search(r'<th scope="row"><span class="muted">e1</span>(.*?)</tr>', page)
    assert row is not None
    assert re.findall(r'<span class="mono">(.*?)</span>', row[1]) == ["7.25", "7.25", "9.5", "not near"]
    assert "123.0" not in page and "55.5" not in page
    assert page.count("Rules, not a model.") == 1 and "return 7.25" in page and "run.py" in page


def test_texts_of_agents_and_sandboxes_are_escaped_and_control_characters_are_named(staff: Client) -> None:
    episode = code_episodes.create_code_episode(status="running")
    hostile = "<script>alert(1)</script>\u202e\x1b[31m"
    call = ToolCall("write_file", {"path": "notes.txt", "text": hostile}, hostile)
    tree = code_episodes.create_workspace(**{"notes.txt": hostile.encode()})
    code_episodes.create_step(episode, 1, call, after=tree, observation=hostile)
    for name, query in (("code_episode", ""), ("code_file", "?path=notes.txt"), ("code_diff", "?path=notes.txt")):
        page = staff.get(reverse(f"simulation:{name}", args=[episode.code]) + query).content.decode()
        assert "<script>alert" not in page and "&lt;script&gt;" in page, name
        assert "U+202E" in page and "\u202e" not in page and "\x1b" not in page, name


def test_first_load_of_fifty_long_steps_is_small_and_the_whole_step_is_loaded_on_demand(staff: Client) -> None:
    episode = code_episodes.create_code_episode(status="running")
    queries = {}
    for number in range(1, 51):
        call = ToolCall("run_command", {"command": "python run.py --all # " + "&'\"<" * 500})
        code_episodes.create_step(episode, number, call, observation=f"first line\n{'&x' * 32_000} last of {number}")
        if number in (5, 50):
            get_page(staff, "code_episode", episode.code)  # the task and the workspace are cached
            with CaptureQueriesContext(connection) as caught:
                answer = staff.get(reverse("simulation:code_episode", args=[episode.code]))
            queries[number] = len(caught)
    assert queries[5] == queries[50]
    assert len(answer.content) <= 150_000
    assert "last of 1" not in answer.content.decode() and "Show the whole step" in answer.content.decode()
    assert "last of 1<" in get_page(staff, "code_step", episode.code, 1, headers=HTMX)
    assert 'id="step-50"' in get_page(staff, "code_episode", episode.code, query="?step=50")


def test_first_load_stays_small_whatever_an_agent_writes(staff: Client) -> None:
    """Every text consists of signs that are escaped or named on the page; paths are as long as a workspace allows."""
    escaped, named = "&'\"<" * 5000, "\x1b\u202e" * 9000
    paths = {f"{number:02}/" + "&" * 197: escaped.encode() + b"\n" * 60 for number in range(40)}
    tree = stored_trees.store_tree({**paths, "named.txt": named.encode()})
    episode = code_episodes.create_code_episode(status="submitted", ending="submitted", memory={"plan": named})
    for number in range(1, 51):
        arguments = {chr(97 + name) * 40: escaped for name in range(26)} | {"text": named}
        call = ToolCall("write_file", arguments, escaped)
        code_episodes.create_step(episode, number, call, after=tree, observation=named)
    compared = {"reported": tuple(ComparedValue("e1", "total", escaped[:80], 7.25, near=False) for _ in range(9))}
    findings = tuple(GradeFinding("import", escaped) for _ in range(99))
    bodies = {f"f{number}": named for number in range(1, 9)}
    grade = Grade("wrong", False, False, False, findings, tuple(paths), compared, {"bodies": bodies})
    code_episodes.create_grading(episode, "wrong", grade=grade.to_json())
    answer = staff.get(reverse("simulation:code_episode", args=[episode.code]))
    assert answer.status_code == 200 and len(answer.content) <= 150_000
    page = html.unescape(answer.content.decode())
    assert "Show all 43 files" in page and "Show the changes of all 43 files" in page and "\u202e" not in page
    assert len(staff.get(reverse("simulation:code_episode", args=[episode.code]) + "?files=all").content) > 150_000


def test_pages_use_the_same_queries_for_more_rows(staff: Client) -> None:
    counts = []
    for replicates in (range(1, 3), range(3, 9)):
        for replicate in replicates:
            episode = code_episodes.create_graded_episode(replicate=replicate)
        names = ("tasks", "code_episodes", "task", "mask", "code_episode", "run")
        mask = episode.mask
        arguments = {"task": [mask.task.slug], "mask": [mask.task.slug, mask.key], "code_episode": [episode.code]}
        arguments["run"] = [episode.run.code]
        for step in range(3, 3 + replicate):
            code_episodes.create_step(episode, step)
        for name in names:
            get_page(staff, name, *arguments.get(name, ()))  # tasks and blobs are cached
            with CaptureQueriesContext(connection) as caught:
                get_page(staff, name, *arguments.get(name, ()))
            counts.append(len(caught))
    assert counts[:6] == counts[6:]


def test_running_episode_polls_its_head_and_an_ended_one_does_not(staff: Client) -> None:
    episode = code_episodes.create_code_episode(status="running", phase="sandbox", pending={"tool": "run_command"})
    code_episodes.create_step(episode, 1)
    page = get_page(staff, "code_episode", episode.code)
    assert "step 2 of 50: a command runs in a sandbox" in page and 'hx-trigger="every' in page
    head = get_page(staff, "code_episode", episode.code, query="?shown=0", headers=HTMX)
    assert "now has 1 steps; this page shows 0" in head and "<html" not in head and 'id="step-1"' not in head
    assert 'hx-trigger="every' not in get_page(staff, "code_episode", create_wrong_episode(replicate=2).code)


def test_running_episode_appends_new_steps_and_names_changed_files(staff: Client) -> None:
    episode = code_episodes.create_code_episode(status="running", phase="sandbox", pending={"tool": "run_command"})
    for number in (1, 2, 3):
        code_episodes.create_step(episode, number)
    tree = episode.present_id[:12]
    head = get_page(staff, "code_episode", episode.code, query=f"?shown=1&follow=1&tree={tree}", headers=HTMX)
    assert 'id="step-1"' not in head and 'id="step-2"' in head and 'id="step-3"' in head
    assert "?shown=3&follow=1" in head and "Files changed" not in head
    code_episodes.create_step(episode, 4, after=code_episodes.create_workspace(**{"notes.txt": b"new"}))
    head = get_page(staff, "code_episode", episode.code, query=f"?shown=3&follow=1&tree={tree}", headers=HTMX)
    assert 'id="step-3"' not in head and 'id="step-4"' in head and "Files changed" in head


def test_run_page_names_the_export_of_code_episodes(staff: Client) -> None:
    episode = code_episodes.create_graded_episode()
    page = get_page(staff, "run", episode.run.code)
    assert f"python manage.py export_code {episode.run.code} run.jsonl" in page


def test_models_page_lists_code_casts_with_missing_keys_and_labels_rules(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code_worlds.create_world()
    casts = get_page(staff, "models").partition("Casts of replication tasks")[2]
    row = re.search(r"<tr> <th scope=\"row\">scripted-coder (.*?)</tr>", casts)
    assert row is not None and "OPENAI_API_KEY" in row[1] and "react" in row[1]
    rules = re.search(r"<tr> <th scope=\"row\">offline-oracle (.*?)</tr>", casts)
    assert rules is not None and "rules" in rules[1] and ">yes<" in rules[1]


def test_stop_and_retry_return_to_the_page_with_the_button(staff: Client) -> None:
    episode = code_episodes.create_code_episode()
    answer = staff.post(reverse("simulation:stop_code_episode", args=[episode.code]), {"from": "run"})
    assert answer.headers["Location"] == reverse("simulation:run", args=[episode.run.code])
    episode.refresh_from_db()
    assert episode.status == "cancelled"
    for _ in range(2):
        staff.post(reverse("simulation:retry_code_episode", args=[episode.code]))
    assert CodeEpisode.objects.filter(retry_of=episode).count() == 1


def test_list_is_filtered_and_stops_the_chosen_code_episodes(staff: Client) -> None:
    code_episodes.create_graded_episode()
    queued = code_episodes.create_code_episode(code_episodes.create_mask(functions=("f1", "f2")))
    assert "2 code episodes" in get_page(staff, "code_episodes")
    assert "1 code episode<" in get_page(staff, "code_episodes", query="?outcome=solved")
    assert "1 code episode<" in get_page(staff, "code_episodes", query="?n=2")
    assert "No code episodes match" in get_page(staff, "code_episodes", query="?q=nothing")
    staff.post(reverse("simulation:act_on_code_episodes"), {"episode": [queued.code, "no code"], "do": "stop"})
    staff.post(reverse("simulation:act_on_code_episodes"), {"episode": [queued.code], "do": "stop"})
    queued.refresh_from_db()
    assert queued.status == "cancelled"


def build_order(**changes: Any) -> dict[str, Any]:
    form = {
        "tasks": ["small-sums"], "ns": "1", "per_n": 2, "mode": "uniform", "cast": "offline-oracle", "attempts": 3,
        "paper": "full", "code": "none", "docs": "kept", "profile": "full", "steps": 50, "seconds": 1800, "cost": "1.0",
    }  # fmt: skip
    return {**form, "submission_id": create.create_submission_id(), **changes}


def mark_validated(rows: list[Mask]) -> None:
    """Leave these masks as validate_masks does, without a sandbox."""
    for mask in rows:
        mask.validated_with, mask.validation = masks.gold.hash_environment(mask.task), {"problem": ""}
        mask.save()


def test_order_form_plays_exactly_the_masks_whose_keys_are_given(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "require_sandbox", lambda: None)
    task = code_episodes.create_task()
    mark_validated(masks.store_masks(task, masks.find_masks(task, ["u1-002", "u2-001", "n1-001-s7"])))
    order = build_order(keys="u1-002, n1-001-s7", attempts=1)
    size = staff.get(reverse("simulation:new_code_run"), order, headers=HTMX).content.decode()
    assert "2 code episodes" in size and "not validated" not in size
    assert staff.post(reverse("simulation:new_code_run"), order).status_code == 302
    assert set(CodeEpisode.objects.values_list("mask__key", flat=True)) == {"u1-002", "n1-001-s7"}
    # The page of a mask links to the form with this mask.
    assert "?tasks=small-sums&ns=1&keys=u1-002" in get_page(staff, "mask", "small-sums", "u1-002")
    assert 'value="u1-002"' in get_page(staff, "new_code_run", query="?tasks=small-sums&keys=u1-002")


@pytest.mark.parametrize(
    ("keys", "messages"),
    [
        (
            "u1-009 u3-001",
            [
                "small-sums has no mask u1-009; allowed: 001 to 002",
                "other-sums has no mask u1-009",
                "small-sums has no mask u3-001; allowed: 0 to 2 hidden functions",
            ],
        ),
        ("u1-001, u1-1", ["u1-1 is given twice"]),
        ("<b>", ["'<b>' is not the key of a mask"]),
        (
            "u1-002,s1-001-s7",
            [
                "small-sums u1-002",
                "`python manage.py draw_masks --task small-sums --n 1 --per-n 2 --mode uniform --seed 1 --validate`",
                "`python manage.py draw_masks --task small-sums --n 1 --per-n 1 --mode scattered --seed 7 --validate`",
            ],
        ),
        ("u1-001 " * 51, ["These are 51 keys, and one form can order 50."]),
    ],
)
def test_order_form_names_the_keys_that_cannot_be_used(staff: Client, keys: str, messages: list[str]) -> None:
    for slug in ("small-sums", "other-sums"):
        code_episodes.create_task(code_episodes.build_task(slug))
    order = build_order(keys=keys, tasks=["small-sums", "other-sums"])
    answer = staff.post(reverse("simulation:new_code_run"), order)
    error = re.search(r'id="id_keys_error">(.*?)</p>', answer.content.decode())
    assert answer.status_code == 422 and error is not None and not Run.objects.exists()
    assert all(message in html.unescape(error[1]) for message in messages), error[1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"keys": "u1-009"}, "small-sums has no mask u1-009; allowed: 001 to 002."),
        ({"ns": "9-1"}, "'9-1' is no range of numbers up to 100."),
        ({"ns": ""}, "Choose at least one task"),
    ],
)
def test_size_names_the_keys_and_numbers_that_are_wrong_before_the_form_is_sent(
    staff: Client, fields: dict[str, str], message: str
) -> None:
    code_episodes.create_task()
    size = staff.get(reverse("simulation:new_code_run"), build_order(**fields), headers=HTMX).content.decode()
    assert message in html.unescape(size) and "will be created" not in size


def test_order_form_shows_the_size_and_refuses_masks_that_are_not_validated(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "require_sandbox", lambda: None)
    code_episodes.create_task()
    size = staff.get(reverse("simulation:new_code_run"), build_order(), headers=HTMX).content.decode()
    assert "6 code episodes" in re.sub(r"\s+", " ", size) and "2 of 2 masks are not validated" in size
    refused = staff.post(reverse("simulation:new_code_run"), build_order())
    assert (
        refused.status_code == 422
        and "draw_masks --task small-sums --n 1 --per-n 2 --mode uniform --seed 1 --validate"
        in refused.content.decode()
    )
    assert not Run.objects.exists()
    mark_validated(masks.draw_and_store(code_episodes.create_task(), [1], 2, "uniform"))
    order = build_order()
    for _ in range(2):
        assert staff.post(reverse("simulation:new_code_run"), order).status_code == 302
    assert CodeEpisode.objects.count() == 6
    # A blank field leaves the condition to the scaffold of the cast.
    assert staff.post(reverse("simulation:new_code_run"), build_order(code="")).status_code == 302
    assert set(CodeEpisode.objects.values_list("conditions__code", flat=True)) == {"none"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ns", "8-1", "no range of numbers up to 100"),
        ("ns", "1,x", "no number and no range"),
        ("tasks", [], "Choose at least one task"),
        ("cast", "offline", "Select a valid choice"),
        ("steps", "0", "greater than or equal to 1"),
    ],
)
def test_order_form_names_the_field_that_is_wrong(staff: Client, field: str, value: Any, message: str) -> None:
    code_episodes.create_task()
    answer = staff.post(reverse("simulation:new_code_run"), build_order(**{field: value}))
    assert answer.status_code == 422 and message in html.unescape(answer.content.decode())


def test_preview_of_a_text_is_cut_by_its_length_on_the_page() -> None:
    assert preview_text("abc", 10).shown == 3
    visible = preview_text("'" * 5000, 900)
    assert visible.shown <= 150 and visible.length == 5000 and visible.is_truncated


def test_diff_names_new_and_removed_files_and_skips_long_ones() -> None:
    diffs = compare_files({"a": b"x\ny", "b": b"x", "c": None}, {"a": b"x\nz", "b": None, "c": b"n\n" * 1000})
    assert [(diff.path, diff.change, diff.added, diff.removed) for diff in diffs] == [
        ("a", "changed", 1, 1),
        ("b", "removed", 0, 1),
        ("c", "new", 0, 0),
    ]
    assert "800 lines" in diffs[2].problem
