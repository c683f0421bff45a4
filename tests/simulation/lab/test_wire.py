"""Parsing of an agent's reply: it becomes one action, or is refused with a reason."""

import contextlib
import random

import pytest

from simulation.lab.action_format import MAX_LENGTH, ActionFormatError, parse_action
from simulation.lab.actions import Action
from tests.support.effort import grows_at_most

FLOW = """ACTION: ExperimentFlowCytometry
MATERIALS: MAT-A1B2C3D4
PARAMETERS: sample_volume=100 µL, flow_rate=medium, detector_voltages={FSC:400,SSC:500,FL1:600},
compensation_enabled=true"""


def test_action_in_the_three_line_format_of_the_paper_is_parsed():
    assert parse_action(FLOW) == Action(
        "ExperimentFlowCytometry",
        ("MAT-A1B2C3D4",),
        {
            "sample_volume": "100 µL",
            "flow_rate": "medium",
            "detector_voltages": "{FSC:400,SSC:500,FL1:600}",
            "compensation_enabled": "true",
        },
    )


def test_empty_fields_and_the_word_none_mean_no_value():
    wanted = Action("SubmitMaterialsObservationsForReview")
    assert parse_action("ACTION: SubmitMaterialsObservationsForReview\nMATERIALS:\nPARAMETERS:") == wanted
    assert parse_action("ACTION: SubmitMaterialsObservationsForReview\nMATERIALS: none\nPARAMETERS: None") == wanted
    assert parse_action("ACTION: SubmitMaterialsObservationsForReview") == wanted


def test_commas_within_a_list_or_sentence_are_kept():
    text = (
        "ACTION: X\nMATERIALS: MAT-1, MAT-2,\nMAT-3\n"
        "PARAMETERS: channels=GFP 475/525,RFP 555/605, question=Is it grey, or black?, speed=5"
    )
    assert parse_action(text) == Action(
        "X",
        ("MAT-1", "MAT-2", "MAT-3"),
        {"channels": "GFP 475/525,RFP 555/605", "question": "Is it grey, or black?", "speed": "5"},
    )


def test_quoted_value_may_contain_text_that_looks_like_a_parameter():
    action = parse_action('ACTION: X\nPARAMETERS: label="pH=7, salt=5", volume=1 mL')
    assert action.parameters == {"label": "pH=7, salt=5", "volume": "1 mL"}


def test_equals_sign_inside_a_value_is_kept():
    assert parse_action("ACTION: X\nPARAMETERS: label=pH=7").parameters == {"label": "pH=7"}


def test_prose_and_markdown_around_the_action_are_ignored():
    text = (
        "I shall mix them first, as the\nrecord shows.\n\n```\n**ACTION:** `Mix`\n**MATERIALS**: `MAT-1`\n"
        "PARAMETERS:\n- method=vortex\n- duration=1 min\n```\n\nThen I measure: pH=?"
    )
    assert parse_action(text) == Action("Mix", ("MAT-1",), {"method": "vortex", "duration": "1 min"})


@pytest.mark.parametrize("parameters", ["", "none", "a=1"])
@pytest.mark.parametrize("gap", ["\n\n", "\n \n", "\n```\n", "\n```\n\n"])
def test_closing_remark_is_ignored_after_an_empty_parameter_list_as_after_a_filled_one(parameters, gap):
    remark = "That is enough evidence, so the record goes to review.\nIts pH=7, as planned."
    action = parse_action(f"ACTION: Submit\nMATERIALS:\nPARAMETERS: {parameters}{gap}{remark}")
    assert action == Action("Submit", (), {"a": "1"} if parameters == "a=1" else {})


@pytest.mark.parametrize("gap", ["\n\n", "\n```\n"])
def test_parameters_may_follow_an_empty_line(gap):
    written = f"ACTION: Mix\nMATERIALS:\n\nMAT-1\nPARAMETERS:{gap}- **method** = vortex\n- duration=1 min\n\nDone."
    assert parse_action(written) == Action("Mix", ("MAT-1",), {"method": "vortex", "duration": "1 min"})


def test_action_may_be_given_as_an_object():
    written = {"name": "Mix", "materials": ["MAT-1"], "parameters": {"speed": 300, "gentle": True, "keys": {"a": "1"}}}
    assert parse_action(written) == Action("Mix", ("MAT-1",), {"speed": 300, "gentle": True, "keys": {"a": "1"}})
    assert parse_action({"name": "Quit"}) == Action("Quit")


def test_lists_of_an_action_object_are_copied():
    written = {"name": "Mix", "materials": ["MAT-1"], "parameters": {"channels": ["GFP"]}}
    action = parse_action(written)
    written["parameters"]["channels"].append("RFP")
    assert action.parameters == {"channels": ["GFP"]}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "no line ACTION"),
        ("mix everything", "no line ACTION"),
        ("ACTION:\nMATERIALS: MAT-1", "name of one action"),
        ("ACTION: Mix\nACTION: Wait", "one action at a time"),
        ("ACTION: Mix\nPARAMETERS: a=1\nPARAMETERS: b=2", "occurs twice"),
        ("ACTION: Mix\nPARAMETERS: a=1, a=2", "a occurs twice"),
        ("ACTION: Mix\nPARAMETERS: quickly", "name=value"),
        ("ACTION: Mix\nPARAMETERS: v={FSC:4,SSC:5", "'}' is missing"),
        ('ACTION: Mix\nPARAMETERS: v="abc', "'\"' is missing"),
        ("ACTION: Mix\x00", "not text"),
        ("ACTION: Mix\ud800", "not text"),
        ("x" * (MAX_LENGTH + 1), "characters"),
        ("ACTION: Mix\nMATERIALS: " + "a," * 1001, "At most 1000"),
        (7, "text or an object"),
        ({"name": 7}, "name of one action"),
        ({"name": "Mix", "materials": 5}, "list of barcodes"),
        ({"name": "Mix", "materials": [None]}, "list of barcodes"),
        ({"name": "Mix", "parameters": []}, "values by name"),
        ({"name": "Mix", "parameters": {"a": float("nan")}}, "cannot be float"),
        # Python cannot format an integer of this many digits, so it must not reach a transcript.
        ({"name": "Mix", "parameters": {"a": 10**5000}}, "cannot be int of that size"),
        ({"name": "Mix", 10**5000: 1}, "something that is not text"),
        ({"name": "Mix", "parameters": {"a": None}}, "cannot be NoneType"),
        ({"name": "Mix", "parameters": {"a": [[[[["b"]]]]]}}, "nested"),
        ({"name": "Mix", "barcode": "MAT-1"}, "'barcode'"),
    ],
)
def test_invalid_action_is_refused_with_the_expected_format(written, reason):
    with pytest.raises(ActionFormatError, match=reason.replace("{", r"\{").replace("}", r"\}")):
        parse_action(written)


@pytest.mark.parametrize("unit", ["{", "}", "=", ",", "\n", " ", '"', "a=", "a=1,", '="', "ACTION", "*", "(,", "MAT-"])
def test_parsing_time_grows_linearly_with_the_text(unit):
    def build_parse_call(length):
        text = "ACTION: X\nMATERIALS: a\nPARAMETERS: k=" + unit * (length // len(unit))

        def parse_text():
            with contextlib.suppress(ActionFormatError):
                parse_action(text[:MAX_LENGTH])

        return parse_text

    # Eight times the text: a parser with quadratic time would take 64 times as long.
    assert grows_at_most(build_parse_call(6_000), build_parse_call(48_000), times=24)


def test_random_text_is_parsed_or_refused_without_a_crash():
    rng = random.Random(4)
    parts = [
        "ACTION:",
        "MATERIALS:",
        "PARAMETERS:",
        "\n",
        "=",
        ",",
        "{",
        "}",
        '"',
        "a",
        "µ",
        " ",
        ":",
        "[",
        "]",
        "\t",
        "\r",
    ]
    accepted = 0
    for _ in range(3000):
        text = "".join(rng.choices(parts, k=rng.randint(0, 30)))
        try:
            assert isinstance(parse_action(text), Action)
            accepted += 1
        except ActionFormatError:
            continue
    assert accepted > 20  # the loop did not only see refusals
