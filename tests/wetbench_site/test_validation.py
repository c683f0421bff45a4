"""Validation of input data: every problem at once, each with its path, its value and what is allowed."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from wetbench_site import validation
from wetbench_site.validation import Allowed, Day, Problem, StrictModel, Text, VisibleText


class Well(StrictModel):
    row: Literal["A", "B", ""]
    volume: Annotated[float, Field(ge=0, le=300)] = 0.0


class Reader(StrictModel):
    plays: Literal["rules"]


class Speaker(StrictModel):
    model: Annotated[str, *validation.one_of(["claude", "gpt"])]
    tokens: Annotated[int, Field(ge=1)] | None = None


def find_role(role: Any) -> str | None:
    fields = {"plays", "model"} & set(role if isinstance(role, dict) else ())
    return fields.pop() if len(fields) == 1 else None


Role = Annotated[
    Annotated[Reader, Tag("plays")] | Annotated[Speaker, Tag("model")],
    Discriminator(find_role),
    Allowed('an object with either "plays" or "model"'),
]


class Plate(StrictModel):
    name: Text
    note: Annotated[VisibleText, Field(max_length=20)] = "none"
    used_on: Day | None = None
    is_sealed: bool = False
    tags: list[Text] = []
    counts: Annotated[list[int], Field(min_length=1)] = [1]
    wells: Annotated[list[Well], validation.need_unique("row")] = []
    lid: Well | None = None
    by_name: dict[str, Well] = {}
    roles: list[Role] = []

    @field_validator("tags")
    @classmethod
    def _need_known_tags(cls, tags: list[str], info: ValidationInfo) -> list[str]:
        known = info.context or tags
        validation.reject_parts([(f"[{i}]", f"{tag!r} is new") for i, tag in enumerate(tags) if tag not in known])
        return tags

    @model_validator(mode="after")
    def _need_free_name(self) -> "Plate":
        if self.name in self.by_name:
            validation.reject_parts([(f"by_name.{self.name}", "is the plate"), ("", "contains itself")])
        if self.name == "lid":
            raise ValueError("a lid is no plate")
        return self


def find(**data: Any) -> list[str]:
    return validation.find_problems(Plate, {"name": "plate 1", **data})


def test_valid_data_has_no_problem() -> None:
    roles = [{"plays": "rules"}, {"model": "gpt", "tokens": None}]
    wells = [{"row": "A", "volume": 2}, {"row": ""}]
    assert find(roles=roles, wells=wells, lid=None, used_on="2026-11-25", by_name={"x": {"row": "B"}}) == []


def test_every_problem_is_listed_at_once_in_the_order_of_the_fields() -> None:
    problems = find(is_sealed="yes", note=" ", wells=[{"row": "C", "volume": "2"}, {}], size=3, counts=[])
    assert problems == [
        "note: is ' '; allowed: text of at most 20 characters, not empty",
        "is_sealed: is 'yes'; allowed: true or false",
        "counts: is []; allowed: a list of whole numbers, not empty",
        "wells[0].row: is 'C'; allowed: A, B, empty",
        "wells[0].volume: is '2'; allowed: a number from 0 to 300",
        "wells[1].row: is missing; allowed: A, B, empty",
        "size: unknown field; allowed: by_name, counts, is_sealed, lid, name, note, roles, tags, used_on, wells",
    ]


def test_field_that_is_missing_is_reported_with_what_it_allows() -> None:
    assert validation.find_problems(Plate, {}) == ["name: is missing; allowed: text, not empty"]


@pytest.mark.parametrize("data", [[], "plate", None, 3])
def test_data_that_is_no_object_is_reported_without_a_path(data: Any) -> None:
    assert validation.find_problems(Plate, data) == [f"is {data!r}; allowed: an object"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"by_name": {"a.b: c": {"row": 1}}}, "by_name.a.b: c.row: is 1; allowed: A, B, empty"),
        ({"by_name": {"x": {"row": "A", "depth": 1}}}, "by_name.x.depth: unknown field; allowed: row, volume"),
        ({"lid": {"row": "A", "depth": 1}}, "lid.depth: unknown field; allowed: row, volume"),
        ({"lid": {"row": "A", "volume": 301}}, "lid.volume: is 301; allowed: a number from 0 to 300"),
        ({"lid": 1}, "lid: is 1; allowed: an object, or null"),
        ({"wells": {}}, "wells: is {}; allowed: a list of objects"),
        ({"tags": [""]}, "tags[0]: is ''; allowed: text, not empty"),
    ],
)
def test_problem_inside_lists_objects_and_optional_fields_has_its_whole_path(data: Any, problem: str) -> None:
    assert find(**data) == [problem]


@pytest.mark.parametrize("value", ["1", 1.0, True, None])
def test_values_of_another_type_are_not_converted(value: Any) -> None:
    assert find(counts=[value]) == [f"counts[0]: is {value!r}; allowed: a whole number"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 300.5, True])
def test_number_that_is_not_finite_or_out_of_bounds_is_rejected(value: float) -> None:
    assert find(wells=[{"row": "A", "volume": value}]) == [
        f"wells[0].volume: is {value!r}; allowed: a number from 0 to 300"
    ]


@pytest.mark.parametrize("day", ["2026-02-30", "20261125", "2026-W48-3", "2026-11-25T00:00", 20261125])
def test_day_is_a_date_of_the_calendar_in_one_spelling(day: Any) -> None:
    assert find(used_on=day) == [f"used_on: is {day!r}; allowed: a day like 2026-11-21, or null"]


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ({"plays": "dice"}, "roles[0].plays: is 'dice'; allowed: rules"),
        ({"model": "eliza"}, "roles[0].model: is 'eliza'; allowed: claude, gpt"),
        ({"model": "gpt", "tokens": 0}, "roles[0].tokens: is 0; allowed: a whole number from 1, or null"),
        ({"model": "gpt", "mood": 1}, "roles[0].mood: unknown field; allowed: model, tokens"),
        ({"plays": "rules", "mood": 1}, "roles[0].mood: unknown field; allowed: plays"),
        ({}, 'roles[0]: is {}; allowed: an object with either "plays" or "model"'),
        (7, 'roles[0]: is 7; allowed: an object with either "plays" or "model"'),
        (
            {"plays": "rules", "model": "gpt"},
            "roles[0]: is {'plays': 'rules', 'model': 'gpt'}; allowed: an object with either \"plays\" or \"model\"",
        ),
    ],
)
def test_problem_in_a_union_with_tags_is_that_of_the_member_and_its_path_has_no_tag(role: Any, problem: str) -> None:
    assert find(roles=[role]) == [problem]


def test_problems_of_parts_have_paths_below_the_value() -> None:
    assert validation.find_problems(Plate, {"name": "p", "tags": ["new", "old", "odd"]}, context=["old"]) == [
        "tags[0]: 'new' is new",
        "tags[2]: 'odd' is new",
    ]
    assert find(name="x.", by_name={"x.": {"row": "A"}}) == ["by_name.x.: is the plate", "contains itself"]


def test_validator_that_raises_a_value_error_is_reported_with_its_own_words() -> None:
    assert find(name="lid") == ["a lid is no plate"]


def test_no_parts_are_no_problem() -> None:
    validation.reject_parts([])


def test_repeated_values_of_a_list_are_reported_once_each() -> None:
    wells = [{"row": row} for row in "ABABA"]
    assert find(wells=wells) == ["wells: the row 'A' occurs twice", "wells: the row 'B' occurs twice"]


def test_long_value_is_shortened() -> None:
    assert find(is_sealed="x" * 1000) == [f"is_sealed: is '{'x' * 76}...; allowed: true or false"]


def test_field_and_message_of_a_problem_can_be_read_apart() -> None:
    problems = validation.find_field_problems(Plate, {"name": "p", "by_name": {"a: b": {"row": "A", "volume": "1"}}})
    assert problems == [Problem(0, "by_name.a: b.volume", "is '1'; allowed: a number from 0 to 300")]
    assert str(problems[0]) == "file: by_name.a: b.volume: is '1'; allowed: a number from 0 to 300"
    assert str(Problem(3, "", "is empty")) == "line 3: is empty"


def test_problems_of_a_file_name_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "plate.json"
    data = {"name": "p", "by_name": {"a: b": {"row": "C"}}, "size": 1}
    path.write_text(json.dumps(data, indent=1))
    read, unreadable = validation.read_json_file(path)
    assert (read, unreadable) == (data, [])
    assert validation.locate_problems(path, validation.find_problems(Plate, read)) == [
        f"{path}:5: by_name.a: b.row: is 'C'; allowed: A, B, empty",
        f"{path}:8: size: unknown field; allowed: {', '.join(sorted(Plate.model_fields))}",
    ]
    assert validation.locate_problems(path, []) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{\n "a": 1,\n "a": 2}', ":3: not JSON: the field 'a' occurs twice"),
        (b'{"a": 1,\n "b": }', ":2: not JSON: Expecting value, column 7"),
        (b'{"a": NaN}', ": not JSON: NaN is not a number"),
        (b'{\n"a": "\xff"}', ":2: not JSON: 'utf-8' codec can't decode"),
        (b'{"a": "\\u0000"}', ": not JSON: contains the character NUL"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_file_that_is_not_strict_json_is_reported_with_its_line_if_it_is_known(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    data, [message] = validation.read_json_file(path)
    assert data is None and message.startswith(str(path)) and problem in message


def test_file_that_is_missing_is_reported_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    assert validation.read_json_file(path) == (None, [f"{path}: cannot be read: No such file or directory"])
