import copy
import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from ratings.blinding import payload_digest
from ratings.exchange.imports import ImportRefused, import_jobs, item_imports, item_lines
from ratings.exchange.imports.item_imports import check_file, import_file
from ratings.models import EVIDENCE, ImportedItem, Item, ItemSource, Study
from ratings.studies import StudyError, lifecycle, pool
from tests.support import run_factory, study_factory, study_log_texts
from tests.support.steps import InterruptedFile

pytestmark = pytest.mark.django_db

SAMPLE = {
    "barcode": "MAT-AAAAAAAA",
    "name": "Cells",
    "properties": {"volume": "10 mL", "density": 1.50},
    "available_for_use": "available_for_further_use",
    "environmental_condition": "room_temp",
}
BUFFER = {**SAMPLE, "barcode": "MAT-BBBBBBBB", "name": "PBS", "properties": {}, "available_for_use": "unlimited"}


def line(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a transfer in the format of check_transitions; the volume left in the flask makes lines distinct."""
    after = {**SAMPLE, "replaces": SAMPLE["barcode"], "properties": {"volume": f"{number} mL"}}
    tube = {**SAMPLE, "replaces": "", "name": "Tube", "properties": {"volume": "1 mL"}}
    del after["barcode"], tube["barcode"]
    plain = {
        "id": f"item-{number}",
        "source": "elsewhere",
        "input_materials": [SAMPLE, BUFFER],
        "action": {"name": "Transfer", "parameters": {"volume": "1 mL", "source": "MAT-AAAAAAAA"}},
        "outcome": {
            "new_materials": [after, tube],
            "new_observations": [
                {"description": "MAT-AAAAAAAA is cloudy", "measurement_type": "visual", "value": 1.50}
            ],
            "reasoning": "SECRET: LEAK",
            "success": True,
            "failure_reason": "",
        },
        "truth": "correct",
    }
    return {**plain, **changes}


def evidence(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a record of two steps; the second uses the output of the first."""
    first, second = line(number), line(number)
    first["outcome"]["new_materials"][1]["barcode"] = "tube-0001"
    second["input_materials"] = [{**SAMPLE, "barcode": "tube-0001", "name": "Tube"}]
    second["action"] = {"name": "Mix", "parameters": {"what": "tube-0001"}}
    second["outcome"]["new_materials"] = []
    plain = {"id": f"e{number}", "source": "elsewhere", "goal": "Count cells", "record": [first, second]}
    return {**plain, "truth": True, "verdicts": {"panel": False}, **changes}


def file(*lines: Any) -> io.BytesIO:
    return io.BytesIO(b"\n".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines))


def draft(**changes: Any) -> Study:
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(sources=[], **changes)))


def problems(study: Study, *lines: Any) -> list[tuple[int, str, str]]:
    return [tuple(problem) for problem in check_file(study, file(*lines)).problems]


def test_item_import_creates_draft_items_with_blinded_payloads() -> None:
    study = draft()
    import_file(
        study, file(line(9, truth="correct"), line(8, truth="type2", field="new_materials[0].properties.volume"))
    )
    right, wrong = study.imported_items.all()
    assert (right.key, right.label, right.perturbation, right.truth) == ("item-9", "elsewhere", "none", True)
    assert (wrong.perturbation, wrong.truth) == ("subtle", False)
    assert right.target == []
    assert "A:Volume" in wrong.target
    assert "LEAK" not in json.dumps(right.payload)
    assert "MAT-" not in json.dumps(right.payload)
    assert right.payload["observations"][0]["description"] == "Cells is cloudy"
    assert study_log_texts.get_event_text(study, "items imported") == "2 items: elsewhere"


def test_item_import_preserves_the_spelling_of_numbers() -> None:
    study = draft()
    text = json.dumps(line()).replace('"density": 1.5', '"density": 1.50').replace('"value": 1.5', '"value": 1e-7')
    import_file(study, file(text.encode()))
    payload = study.imported_items.get().payload
    assert ["Density", "1.50"] in payload["before"][0]["properties"]
    assert payload["observations"][0]["value"] == "1e-7"


def test_item_import_with_one_bad_line_imports_nothing() -> None:
    study = draft()
    with pytest.raises(ImportRefused) as refused:
        import_file(study, file(line(1), b"{", line(2, source="")))
    assert [problem.line for problem in refused.value.problems] == [2, 3]
    assert not study.imported_items.exists()
    assert not study.events.filter(kind="items imported").exists()


def test_item_import_dry_run_counts_items_and_writes_nothing() -> None:
    study = draft()
    checked = check_file(study, file(line(1), line(2, truth="type1"), line(3, truth="type1"), line(4, truth=None)))
    assert not checked.problems
    assert checked.count_by_source == [
        ("elsewhere", "none", "", None, 1),
        ("elsewhere", "none", "unperturbed", True, 1),
        ("elsewhere", "obvious", "planted", False, 2),
    ]
    assert not ImportedItem.objects.exists()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "file is empty"),
        (b"\n\n  \n", "all lines are blank"),
        (b'{"id": "\xff"}', "not UTF-8 at byte 9"),
        (b"PK\x03\x04rest", "compressed"),
        (b"\x1f\x8b\x08", "compressed"),
        (b"[]", "one JSON object"),
        (b"null", "one JSON object"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": -Infinity}', "-Infinity is not a number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "more than 18 digits"),
        (b'{"id": 1, "id": 2}', "occurs twice"),
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"\\u0000": 1}', "NUL"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}", "nested deeper than"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"a": "' + b"x" * 30_000 + b'"}', "longer than 20,000"),
        (b'{"a": "' + b"x" * 300_000 + b'"}', "longer than 256 KiB"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
    ],
)  # fmt: skip
def test_item_import_rejects_invalid_lines_with_a_reason(raw: bytes, said: str) -> None:
    (problem,) = check_file(draft(), io.BytesIO(raw)).problems
    assert said in problem.message


def test_item_import_rejects_too_many_lines_or_bytes() -> None:
    many = check_file(draft(), io.BytesIO(b"\n" * 10_001 + json.dumps(line()).encode())).problems
    assert [problem.message for problem in many] == ["more than 10,000 lines; split the file between two lines"]
    # Lines and the bytes of each are limited, not the bytes of a file: these are 22 MB.
    large = check_file(draft(slug="large"), io.BytesIO((b" " * 200_000 + b"\n") * 110)).problems
    assert [problem.message for problem in large] == ["all lines are blank"]
    endless = check_file(draft(slug="endless"), io.BytesIO(b"x" * (21 * 1024**2))).problems
    assert [problem.message for problem in endless] == ["longer than 256 KiB, the most that a line may have"]


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the usual line with another value at this path."""
    found = copy.deepcopy(line())
    inner: Any = found
    *parts, last = path.split("/")
    for part in parts:
        inner = inner[int(part) if part.isdigit() else part]
    inner[int(last) if last.isdigit() else last] = value
    return found


@pytest.mark.parametrize("field", ["id", "source", "pair", "experiment"])
@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\x1b", "\n", "\t", "\u2028"])
def test_item_import_rejects_invisible_characters_in_names(field: str, sign: str) -> None:
    assert [name for _, name, _ in problems(draft(), line(1, **{field: f"a{sign}b"}))] == [field]


@pytest.mark.parametrize("value", [None, 7, True, [], {}, "", " ", "x" * 5000])
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("id", "id"),
        ("source", "source"),
        ("action/name", "action.name"),
        ("input_materials/0/barcode", "input_materials[0].barcode"),
        ("input_materials/0/name", "input_materials[0].name"),
        ("outcome/new_materials/0/name", "outcome.new_materials[0].name"),
        ("outcome/new_observations/0/description", "outcome.new_observations[0].description"),
    ],
)
def test_item_import_requires_text_in_text_fields(path: str, field: str, value: Any) -> None:
    assert field in [problem[1] for problem in problems(draft(), changed(path, value))]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("truth", "maybe", "truth"),
        ("truth", ["correct"], "truth"),
        ("truth", 3, "truth"),
        ("input_materials", "MAT", "input_materials"),
        ("input_materials", [1], "input_materials[0]"),
        ("input_materials", [SAMPLE] * 101, "input_materials"),
        ("input_materials", [SAMPLE, SAMPLE], "input_materials"),
        ("input_materials/0/properties", [], "input_materials[0].properties"),
        ("input_materials/0/properties", {str(n): n for n in range(61)}, "input_materials[0].properties"),
        ("input_materials/0/environmental_condition", "window sill", "input_materials[0].environmental_condition"),
        ("outcome", None, "outcome"),
        ("outcome", "fine", "outcome"),
        ("action", None, "action"),
        ("outcome/success", "yes", "outcome.success"),
        ("outcome/new_materials/0/replaces", "MAT-ZZZZZZZZ", "outcome.new_materials[0].replaces"),
        ("outcome/new_materials/1/replaces", "MAT-AAAAAAAA", "outcome.new_materials[1].replaces"),
        ("outcome/new_materials/0/replaces", "MAT-BBBBBBBB", "outcome.new_materials[0].replaces"),
        ("field", "new_materials[0].properties.volume", "field"),
        ("steps_before", 5, "steps_before"),
        ("pair", 5, "pair"),
        ("goal", {}, "goal"),
    ],
)
def test_item_import_names_line_and_field_of_every_problem(path: str, value: Any, field: str) -> None:
    found = problems(draft(), line(5), changed(path, value))
    assert [(at, name) for at, name, _ in found] == [(2, field)]


@pytest.mark.parametrize("path", ["new_materials[7].properties.volume", "new_materials[x]", "reasoning", "a.b", "\n"])
def test_item_import_rejects_an_error_path_that_raters_do_not_see(path: str) -> None:
    found = problems(draft(), line(1, truth="type1", field=path))
    assert [name for _, name, _ in found] == ["field"]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("outcome.new_materials[0].properties.volume", "A:Volume"),
        ("new_materials[0]", "A:Volume"),
        ("new_materials[0].environmental_condition", "A/place"),
        ("new_observations[0]", "seen/1"),
        ("new_materials[5]", "missing"),
        ("new_materials[0].properties.colour", "missing"),
    ],
)
def test_item_import_converts_the_path_of_an_error_to_the_row_that_shows_it(path: str, key: str) -> None:
    study = draft()
    import_file(study, file(line(1, truth="type1", field=[path])))
    assert key in study.imported_items.get().target


def test_item_import_requires_unique_ids_and_contents() -> None:
    study = draft()
    twice = problems(study, line(1), line(1), line(1, id="other"))
    assert twice == [
        (2, "id", "'item-1' is also the id of line 1"),
        (3, "", "raters could not distinguish it from line 1: both would look the same"),
    ]
    import_file(study, file(line(1)))
    again = problems(study, line(2, id="item-1"), line(1, id="other"))
    assert [(at, field) for at, field, _ in again] == [(1, "id"), (2, "")]


@pytest.mark.parametrize(
    "ways", [("correct", "0", 0, "none", " Correct "), (True, "true", " TRUE"), ("type2", "2", 2, "subtle")]
)
def test_item_import_accepts_truth_as_words_or_as_error_types(ways: tuple[Any, ...]) -> None:
    checked = check_file(draft(), file(*(line(n, truth=truth) for n, truth in enumerate(ways))))
    assert not checked.problems
    assert len(checked.count_by_source) == 1


def test_item_import_removes_barcodes_of_any_format_from_the_payload() -> None:
    text = json.dumps(line()).replace("MAT-AAAAAAAA", "TUBE-00017").replace("MAT-BBBBBBBB", "7")
    study = draft()
    import_file(study, file(text.encode()))
    shown = json.dumps(study.imported_items.get().payload)
    assert "TUBE-00017" not in shown
    assert "Cells is cloudy" in shown
    # A bare number in a text is not a barcode: the volumes are unchanged.
    assert '["Volume", "1 mL"]' in shown


def test_item_import_knows_the_lineage_only_if_it_is_stated_or_names_are_unique() -> None:
    study = draft()
    unsaid = line(2)
    for made in unsaid["outcome"]["new_materials"]:
        del made["replaces"]
    unclear = line(3)
    for made, name in zip(unclear["outcome"]["new_materials"], ("Cells, rest", "Cells, new"), strict=True):
        del made["replaces"]
        made["name"] = name
    checked = check_file(study, file(line(1), unsaid, unclear))
    assert [item.payload["lineage"] for item in checked.items] == [True, True, False]
    assert checked.n_plain == 1


def test_item_import_pairs_items_with_equal_inputs_and_action_or_the_same_pair_name() -> None:
    study = draft()
    elsewhere = line(3, pair="p")
    elsewhere["action"] = {"name": "Wash", "parameters": {}}
    import_file(study, file(line(1), line(2, truth="type1"), elsewhere, line(4, pair="p")))
    first, second, third, fourth = (found.candidate.pair for found in pool.list_imported_candidates(study))
    assert first == second != third
    assert third == fourth


def test_imported_item_becomes_a_candidate_that_records_where_it_came_from() -> None:
    study = draft()
    import_file(study, file(line(1, truth="type2", experiment="caffeine", field="new_materials[0].properties.volume")))
    (found,) = pool.list_imported_candidates(study)
    assert found.candidate.source == ("elsewhere", "subtle")
    assert (found.candidate.experiment, found.candidate.action) == ("caffeine", "Transfer")
    assert found.candidate.content == payload_digest(found.payload)
    row = study.imported_items.get()
    assert found.origin == {
        "imported_id": row.pk, "truth": False, "reference": "planted", "target": row.target, "verdicts": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"perturbation": "none", "truth": None}, ("none", None, "unperturbed")),
        ({"perturbation": "obvious", "truth": None}, ("obvious", False, "planted")),
        ({"perturbation": "Subtle", "truth": None}, ("subtle", False, "planted")),
        ({"perturbation": "subtle", "truth": "type2"}, ("subtle", False, "planted")),
        ({"perturbation": "none", "truth": True}, ("none", True, "unperturbed")),
        ({"perturbation": "none", "truth": False}, ("none", False, "unperturbed")),
        ({"truth": True}, ("none", True, "declared right")),
        ({"truth": False}, ("none", False, "declared wrong")),
        ({"truth": None}, ("none", None, "")),
    ],
)
def test_item_import_derives_the_reference_label_from_perturbation_or_declared_truth(
    stated: dict[str, Any], expected: tuple[str, bool | None, str]
) -> None:
    study = draft()
    import_file(study, file(line(1, **stated)))
    row = study.imported_items.get()
    assert (row.perturbation, row.truth, row.reference) == expected


@pytest.mark.parametrize(
    "stated",
    [
        {"perturbation": "none", "truth": "type1"},
        {"perturbation": "obvious", "truth": "type2"},
        {"perturbation": "subtle", "truth": True},
        {"perturbation": "frozen", "truth": None},
        {"perturbation": 1, "truth": None},
    ],
)
def test_item_import_rejects_contradicting_or_unknown_perturbations(stated: dict[str, Any]) -> None:
    assert [(at, field) for at, field, _ in problems(draft(), line(1, **stated))] == [(1, "perturbation")]


def test_item_import_requires_a_goal_if_the_study_shows_goals() -> None:
    study = draft(display={"layouts": ["aligned"], "context": [True], "marks": ["off"], "by": "rater"})
    assert [field for _, field, _ in problems(study, line(1))] == ["goal"]
    import_file(study, file(line(1, goal="Count cells", steps_before=[line(7)])))
    context = study.imported_items.get().context
    assert context["goal"] == "Count cells"
    assert [step["action"] for step in context["steps"]] == ["Transfer"]


def test_item_import_parses_evidence_records_in_order() -> None:
    study = draft(kind=EVIDENCE)
    import_file(study, file(evidence(1), evidence(2, truth=False, verdicts={})))
    first, second = study.imported_items.all()
    assert (first.truth, second.truth, first.verdicts) == (True, False, {"panel": False})
    assert [step["action"]["name"] for step in first.payload["steps"]] == ["Transfer", "Mix"]
    made = first.payload["steps"][0]["made"][1]["ref"]
    assert [material["ref"] for material in first.payload["steps"][1]["materials"]] == [made]
    assert "tube-0001" not in json.dumps(first.payload)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"goal": ""}, "goal"),
        ({"record": []}, "record"),
        ({"record": None}, "record"),
        ({"record": [{**line(1), "started_at": 100}, {**line(2), "started_at": 50}]}, "record[1].started_at"),
        ({"record": [{**line(1), "started_at": -5}]}, "record[0].started_at"),
        ({"truth": "type1"}, "truth"),
        ({"verdicts": {"panel": "yes"}}, "verdicts.panel"),
        ({"verdicts": []}, "verdicts"),
    ],
)
def test_item_import_rejects_impossible_evidence_records(changes: dict[str, Any], field: str) -> None:
    assert [name for _, name, _ in problems(draft(kind=EVIDENCE), evidence(1, **changes))] == [field]


def test_item_import_into_an_open_study_appends_the_items(admin_user: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=4)
    before = study.items.count()
    import_file(study, file(line(1), line(2)), admin_user)
    assert study.items.count() == before + 2
    made = ItemSource.objects.filter(item__study=study, imported__isnull=False)
    assert {source.label for source in made} == {"elsewhere"}
    assert Item.objects.get(source=made[0]).assignments.filter(slot__isnull=False).count() == study.ratings_per_item


def test_item_import_into_an_open_study_rejects_revealing_texts() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(raters=4)
    telling = changed("outcome/new_observations/0/description", "a perturbed reading")
    (problem,) = check_file(study, file(telling)).problems
    assert "might reveal its source" in problem.message
    assert check_file(draft(slug="draft"), file(telling)).n_quarantined == 1


def test_item_import_into_a_closed_study_is_refused() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    lifecycle.close_study(study)
    study.refresh_from_db()
    with pytest.raises(StudyError, match="closed"):
        import_file(study, file(line(1)))


def test_imported_items_can_be_removed_from_a_draft(admin_user: User) -> None:
    study = draft()
    import_file(study, file(line(1), line(2)))
    assert item_imports.remove_all_items(study, admin_user) == 2
    assert not study.imported_items.exists()


def test_import_items_command_output_and_exit_codes(tmp_path, capsys) -> None:
    study = draft()
    path = tmp_path / "items.jsonl"
    path.write_bytes(file(line(1), line(2, truth="type1")).getvalue())
    call_command("import_items", study.slug, str(path), "--dry-run")
    assert "2 items would be imported." in capsys.readouterr().out
    assert not study.imported_items.exists()
    call_command("import_items", study.slug, str(path))
    assert study.imported_items.count() == 2
    with pytest.raises(CommandError, match="nothing was imported") as refused:
        call_command("import_items", study.slug, str(path))
    assert refused.value.returncode == 1
    assert "line 1: id: 'item-1' was already imported" in capsys.readouterr().err
    for arguments in ((study.slug, str(tmp_path / "none")), ("nothing", str(path)), (study.slug, "a\0b")):
        with pytest.raises(CommandError) as refused:
            call_command("import_items", *arguments)
        assert refused.value.returncode == 2


def test_import_items_command_escapes_control_characters(tmp_path, capsys) -> None:
    path = tmp_path / "items.jsonl"
    path.write_bytes(json.dumps({**line(1), "id": 1, "source": "\x1b[31m" + "x" * 90}).encode())
    with pytest.raises(CommandError):
        call_command("import_items", draft().slug, str(path))
    assert "\x1b" not in capsys.readouterr().err


@pytest.fixture
def owner(client: Client, django_user_model) -> User:
    user = django_user_model.objects.create_user("owner", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def own_draft(owner: User) -> Study:
    study = draft()
    study.created_by = owner
    study.save()
    return study


def sent(client: Client, study: Study, data: io.BytesIO, name: str = "items.jsonl") -> Any:
    data.name = name
    return client.post(reverse("ratings:import_items", args=[study.slug]), {"file": data, "do": "check"})


def test_item_import_page_checks_first_and_imports_on_confirmation(client, own_draft, settings, tmp_path) -> None:
    settings.VAR_DIR = tmp_path
    page = sent(client, own_draft, file(line(1), line(2)))
    assert page.status_code == 200
    assert not own_draft.imported_items.exists()
    token = page.context["token"]
    done = client.post(reverse("ratings:import_items", args=[own_draft.slug]), {"token": token})
    assert done.status_code == 302
    assert own_draft.imported_items.count() == 2
    assert own_draft.imported_items.first().by == own_draft.created_by
    again = client.post(reverse("ratings:import_items", args=[own_draft.slug]), {"token": token})
    assert again.status_code == 422
    assert "Choose it again" in again.content.decode()
    removed = client.post(reverse("ratings:import_items", args=[own_draft.slug]), {"do": "remove"})
    assert removed.status_code == 302
    assert not own_draft.imported_items.exists()


def test_checked_upload_can_be_used_only_by_its_sender(client, own_draft, settings, tmp_path) -> None:
    settings.VAR_DIR = tmp_path
    token = import_jobs.store_upload(file(line(1)), "somebody else")
    page = client.post(reverse("ratings:import_items", args=[own_draft.slug]), {"token": token})
    assert page.status_code == 422
    forged = client.post(reverse("ratings:import_items", args=[own_draft.slug]), {"token": "../../secret_key"})
    assert forged.status_code == 422


def test_item_import_page_escapes_problems(client, own_draft) -> None:
    bad = line(1, source="<script>alert(1)</script>" * 4)
    page = sent(client, own_draft, file(bad, b"{"), name="<b>.jsonl")
    assert page.status_code == 422
    text = page.content.decode()
    assert "2 problems in <bdi>&lt;b&gt;.jsonl</bdi>: nothing was imported" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_item_import_page_rejects_a_missing_or_empty_file(client, own_draft) -> None:
    address = reverse("ratings:import_items", args=[own_draft.slug])
    assert client.post(address, {"do": "check"}).status_code == 422
    assert sent(client, own_draft, io.BytesIO(b"")).status_code == 422


def test_item_import_page_of_a_foreign_study_is_not_found(client, owner) -> None:
    assert client.get(reverse("ratings:import_items", args=[draft().slug])).status_code == 404


def test_item_import_page_query_count_does_not_grow_with_items(
    client, own_draft, django_assert_max_num_queries
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    asked = []
    for first in (0, 10):
        import_file(own_draft, file(*(line(n, source=f"s{n}") for n in range(first, first + 10))))
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse("ratings:import_items", args=[own_draft.slug]))
        asked.append(len(queries))
    assert asked[0] == asked[1] <= 12


@pytest.mark.django_db(transaction=True)
def test_item_import_parses_the_file_outside_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    study, held, read = draft(), [], item_lines.parse_item

    def watched(*args: Any) -> ImportedItem | None:
        held.append(connection.in_atomic_block)
        return read(*args)

    monkeypatch.setattr(item_lines, "parse_item", watched)
    import_file(study, InterruptedFile(file(line(1), line(2)), lambda: held.append(connection.in_atomic_block)))
    assert held == [False, False, False]
    assert study.imported_items.count() == 2


@pytest.mark.parametrize(
    ("other", "said"),
    [(line(1), "was already imported into this study"), (line(1, id="x"), "looks exactly the same")],
)
def test_item_import_detects_items_of_a_concurrent_import(other: dict[str, Any], said: str) -> None:
    study = draft()
    with pytest.raises(ImportRefused, match=said):
        import_file(study, InterruptedFile(file(line(1), line(2)), lambda: import_file(study, file(other))))
    assert study.imported_items.count() == 1


def test_item_import_rejects_revealing_texts_if_the_study_opened_meanwhile() -> None:
    study = draft()
    import_file(study, file(*(line(n) for n in range(10, 20))))
    outcome = copy.deepcopy(line(1)["outcome"])
    outcome["new_observations"][0]["description"] = "deliberately wrong"
    with pytest.raises(ImportRefused, match="might reveal its source"):
        import_file(study, InterruptedFile(file(line(1, outcome=outcome)), lambda: lifecycle.open_study(study)))
    assert study.imported_items.count() == 10


def test_item_import_fails_if_the_protocol_changed_meanwhile() -> None:
    study = draft()
    other = lifecycle.parse_protocol(study_factory.build_protocol(sources=[], display={"context": [True]}))
    with pytest.raises(StudyError, match="was changed while the file was being checked"):
        import_file(study, InterruptedFile(file(line(1)), lambda: lifecycle.edit_draft(study, other)))
    assert not study.imported_items.exists()
