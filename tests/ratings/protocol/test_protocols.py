"""Tests of reading study protocols: defaults, errors and the names of their choices."""

import json
from pathlib import Path

import pytest

from ratings.protocol import KnownNames, ProtocolError
from ratings.protocol.study_protocol import (
    CHOICES,
    DESIGNS,
    FIELDS,
    LAYOUTS,
    MARKS,
    STOPS,
    Display,
    StudyProtocol,
    format_fields_table,
    make_slug,
    parse_protocol,
)

KNOWN = KnownNames(("offline", "offline-lapses"), ("caffeine", "zebrafish"), ("Wash", "Mix"))
GOOD = {
    "name": "A study",
    "kind": "transition_plausibility",
    "sources": [{"cast": "offline", "perturbation": "subtle", "count": 5}],
    "ratings_per_item": 3,
    "seed": 1,
}


def collect_problems(**changes: object) -> list[str]:
    with pytest.raises(ProtocolError) as caught:
        parse_protocol({**GOOD, **changes}, KNOWN)
    return caught.value.problems


def test_protocol_field_that_is_missing_gets_its_default() -> None:
    protocol = parse_protocol(GOOD, KNOWN)
    assert (protocol.slug, protocol.experiments, protocol.raters, protocol.guide) == ("a-study", (), None, "")
    assert protocol.question.endswith("?")


ALL_OPTIONAL_FIELDS = {
    "experiments": ["zebrafish"], "actions": ["Mix"], "raters": 6, "design": "balanced", "items_per_rater": 9,
    "lease_minutes": 45, "practice": 2, "repeats": 0.2, "repeat_distance": 7, "stop": "ratings", "stop_ratings": 12,
    "deadline": "2027-03-31", "withdrawal": "drop", "feedback": True,
    "review": True, "allow_unblinded": True, "vetting": "person", "consent": "I agree.",
    "contact": "Ada", "guide": "Mind the units.", "slug": "a-2", "question": "Really?",
    "display": {"layouts": ["plain", "confirm"], "context": [False, True], "marks": ["always"], "by": "item", "calculator": False},
}  # fmt: skip


def test_protocol_written_as_json_is_read_back_unchanged() -> None:
    protocol = parse_protocol({**GOOD, **ALL_OPTIONAL_FIELDS}, KNOWN)
    written = protocol.to_document()
    assert written == {**GOOD, **ALL_OPTIONAL_FIELDS}
    assert set(written) == set(FIELDS) - {"conditions", "washout_days"}, "crossover fields occur only in a crossover"
    assert parse_protocol(json.loads(json.dumps(written)), KNOWN) == protocol
    assert protocol.display.context == (False, True)
    assert protocol.planted_share == 1.0


def test_protocol_without_sources_is_valid_for_imported_items() -> None:
    protocol = parse_protocol({**GOOD, "sources": []}, KNOWN)
    assert (protocol.sources, protocol.planted_share) == ((), None)


def test_protocol_rule_about_two_fields_is_skipped_if_one_of_them_is_invalid() -> None:
    assert collect_problems(raters=2, ratings_per_item=0) == [
        "ratings_per_item: is 0; allowed: a whole number from 1 to 50"
    ]
    assert collect_problems(deadline=9, stop="deadline") == ["deadline: is 9; allowed: a day such as 2027-03-31"]
    assert len(collect_problems(sources=[{"cast": "offline", "count": "many"}], items_per_rater=1, raters=3)) == 1


def test_evidence_protocol_allows_one_layout_and_always_shows_the_context() -> None:
    evidence = {"kind": "evidence_sufficiency", "sources": [{"cast": "offline", "count": 1}]}
    assert collect_problems(**evidence, display={"layouts": ["aligned", "plain"], "context": [True]}) == [
        "display.layouts: a record of evidence has one layout; allowed: plain alone or aligned alone",
        "display.context: a record of evidence always shows goal and steps; allowed: false alone",
    ]
    assert parse_protocol(
        {**GOOD, **evidence, "display": {"marks": ["always"]}}, KNOWN._replace(actions=())
    ).display.marks == ("always",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "  "}, "name: is '  '; allowed: text of 1 to 120 characters"),
        (
            {"slug": "Not A Slug"},
            "slug: is 'Not A Slug'; allowed: at most 80 small letters and digits with single hyphens",
        ),
        ({"kind": "taste"}, "kind: is 'taste'; allowed: transition_plausibility, evidence_sufficiency"),
        ({"ratings_per_item": 0}, "ratings_per_item: is 0; allowed: a whole number from 1 to 50"),
        ({"ratings_per_item": True}, "ratings_per_item: is True; allowed: a whole number from 1 to 50"),
        ({"seed": "7"}, "seed: is '7'; allowed: a whole number from 0 to 9007199254740992"),
        ({"raters": 2}, "raters: is 2; 3 ratings per item need at least 3 raters"),
        ({"raters": 0}, "raters: is 0; allowed: a whole number from 1 to 200, or null"),
        ({"experiments": ["moon"]}, "experiments: is 'moon'; allowed: caffeine, zebrafish"),
        ({"experiments": []}, 'experiments: is []; allowed: "all" or a list of: caffeine, zebrafish'),
        ({"sources": "all"}, 'sources: is \'all\'; allowed: a list of {"cast", "perturbation", "count"}'),
        ({"actions": ["Fly"]}, "actions: is 'Fly'; allowed: Mix, Wash"),
        ({"actions": []}, 'actions: is []; allowed: "all" or a list of: Mix, Wash'),
        ({"design": "random"}, "design: is 'random'; allowed: crossed, balanced, pool, crossover"),
        (
            {"design": "crossed", "raters": 4},
            "raters: is 4; in a crossed design every rater rates every item: 3, as ratings_per_item",
        ),
        ({"items_per_rater": 0}, "items_per_rater: is 0; allowed: a whole number from 1 to 5000, or null"),
        # 5 items x 3 ratings by 4 raters are 15 / 4, so one rater has at least 4
        ({"items_per_rater": 3, "raters": 4}, "items_per_rater: is 3; 5 items among 4 raters need at least 4"),
        ({"items_per_rater": 4, "design": "crossed"}, "items_per_rater: is 4; 5 items among 3 raters need at least 5"),
        ({"lease_minutes": 4}, "lease_minutes: is 4; allowed: a whole number from 5 to 1440"),
        ({"practice": 4}, "practice: is 4; allowed: a whole number from 0 to 3"),
        ({"repeats": 0.6}, "repeats: is 0.6; allowed: a share from 0 to 0.5"),
        ({"repeats": True}, "repeats: is True; allowed: a share from 0 to 0.5"),
        ({"repeats": float("nan")}, "repeats: is nan; allowed: a share from 0 to 0.5"),
        ({"repeat_distance": 0}, "repeat_distance: is 0; allowed: a whole number from 1 to 1000"),
        ({"stop": "soon"}, "stop: is 'soon'; allowed: complete, deadline, ratings"),
        ({"stop": "deadline"}, "deadline: is missing; a study that stops at its deadline needs one"),
        ({"stop": "ratings"}, "stop_ratings: is missing; a study that stops at a number of ratings needs one"),
        ({"stop_ratings": 5}, 'stop_ratings: is 5; it requires stop "ratings"'),
        ({"deadline": "31.3.2027"}, "deadline: is '31.3.2027'; allowed: a day such as 2027-03-31"),
        ({"deadline": "20270331"}, "deadline: is '20270331'; allowed: a day such as 2027-03-31"),
        ({"deadline": 5}, "deadline: is 5; allowed: a day such as 2027-03-31"),
        ({"withdrawal": "ask"}, "withdrawal: is 'ask'; allowed: keep, drop"),
        ({"vetting": None}, "vetting: is None; allowed: rules, person"),
        ({"feedback": 1}, "feedback: is 1; allowed: true or false"),
        ({"contact": "x" * 201}, f"contact: is {('x' * 201)!r:.77}...; allowed: text of at most 200 characters"),
        (
            {"consent": "a\0"},
            "consent: must not contain control characters or marks that reverse the writing direction",
        ),
        ({"display": "plain"}, "display: is 'plain'; allowed: an object with layouts, context, marks, by, calculator"),
        ({"display": {"size": 3}}, "display.size: unknown field; allowed: by, calculator, context, layouts, marks"),
        (
            {"display": {"layouts": ["tidy"]}},
            "display.layouts: is ['tidy']; allowed: a list, not empty, of: plain, aligned, balance, confirm",
        ),
        ({"display": {"context": [1]}}, "display.context: is [1]; allowed: a list, not empty, of: false, true"),
        (
            {"display": {"marks": []}},
            "display.marks: is []; allowed: a list, not empty, of: off, if_not_plausible, always",
        ),
        ({"display": {"layouts": ["plain", "plain"]}}, "display.layouts: contains the same value twice"),
        ({"display": {"by": "day"}}, "display.by: is 'day'; allowed: rater, item"),
        ({"guide": 5}, "guide: is 5; allowed: text of at most 5,000 characters"),
        (
            {"question": "a\0b"},
            "question: must not contain control characters or marks that reverse the writing direction",
        ),
        (
            {"guide": "a\ud800"},
            "guide: must not contain control characters or marks that reverse the writing direction",
        ),
        (
            {"name": "a\0b"},
            "name: must not contain control characters or marks that reverse the writing direction",
        ),
        (
            {"name": "a\udc00"},
            "name: must not contain control characters or marks that reverse the writing direction",
        ),
        ({"slug": "new"}, "slug: 'new' is reserved for a page of this site; choose another one"),
        ({"name": "New"}, "slug: 'new' is reserved for a page of this site; choose another one"),
    ],
)
def test_protocol_error_names_the_field_its_value_and_the_allowed_values(changes: dict, said: str) -> None:
    assert collect_problems(**changes) == [said]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"cast": "gpt", "count": 1}, "sources[0].cast: is 'gpt'; allowed: offline, offline-lapses"),
        (
            {"cast": ["offline"], "count": 1},
            "sources[0].cast: is ['offline']; allowed: offline, offline-lapses",
        ),
        ({"cast": "offline", "count": -1}, "sources[0].count: is -1; allowed: a whole number from 1 to 5000"),
        (
            {"cast": "offline", "count": 1, "perturbation": "odd"},
            "sources[0].perturbation: is 'odd'; allowed: none, obvious, subtle",
        ),
        (
            {"cast": "offline", "count": 1, "color": 1},
            "sources[0].color: unknown field; allowed: cast, count, perturbation",
        ),
    ],
)
def test_protocol_error_names_the_index_of_an_invalid_source(source: dict, said: str) -> None:
    assert collect_problems(sources=[source]) == [said]


def test_evidence_protocol_rejects_perturbed_sources() -> None:
    assert collect_problems(kind="evidence_sufficiency") == ["sources[0].perturbation: is 'subtle'; allowed: none"]


def test_protocol_rejects_a_repeated_source() -> None:
    assert collect_problems(sources=[GOOD["sources"][0]] * 2) == [
        "sources[1].cast: the same cast and perturbation occur twice"
    ]


def test_protocol_errors_are_reported_together() -> None:
    assert len(collect_problems(name="", kind="", seed=None, surprise=1)) == 4


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_protocol_that_is_not_a_json_object_is_rejected(document: object) -> None:
    with pytest.raises(ProtocolError, match="must be a JSON object"):
        parse_protocol(document, KNOWN)


def test_protocol_name_without_latin_letters_requires_a_slug() -> None:
    assert collect_problems(name="研究")[0].startswith("slug: the name has no letters")
    assert make_slug("Small  study, No. 2!") == "small-study-no-2"


def test_studies_documentation_has_the_table_of_the_fields_and_names_every_choice() -> None:
    text = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    assert format_fields_table() in text
    words = {*FIELDS, *DESIGNS, *LAYOUTS, *MARKS, *STOPS}
    assert sorted(word for word in words if f"`{word}`" not in text) == []


def test_every_choice_of_the_document_has_a_label() -> None:
    """The choices of a field are declared once, with their labels; each is accepted by the field of that name."""
    for key, choices in CHOICES.items():
        assert all(choice.name and choice.explanation for choice in choices.values())
        assert key in {**StudyProtocol.model_fields, **Display.model_fields}


@pytest.mark.parametrize("character", ["\n", "\x1b", "\x85", "\u202e", "\u2066", "\u200f", "\u2028"])
def test_single_line_protocol_text_rejects_control_characters(character: str) -> None:
    for field in ("name", "question", "contact"):
        assert "must not contain control characters" in collect_problems(**{field: f"a{character}b"})[0]


def test_protocol_paragraphs_allow_line_breaks_and_tabs_but_no_other_control_character() -> None:
    assert (
        parse_protocol({**GOOD, "guide": "a\r\nb\tc\n", "consent": "a\nb"}, KNOWN._replace(actions=())).guide
        == "a\r\nb\tc\n"
    )
    assert collect_problems(consent="a\u202eb")[0].startswith("consent: must not contain")
