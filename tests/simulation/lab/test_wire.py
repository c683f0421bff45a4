"""What an agent writes is read as one action, or refused with a reason; never anything else."""

import contextlib
import random

import pytest

from simulation.lab.actions import Action
from simulation.lab.wire import LONGEST, WireError, read
from tests.support.effort import grows_with

FLOW = """ACTION: ExperimentFlowCytometry
MATERIALS: MAT-A1B2C3D4
PARAMETERS: sample_volume=100 µL, flow_rate=medium, detector_voltages={FSC:400,SSC:500,FL1:600},
compensation_enabled=true"""


def test_the_papers_three_lines_are_read():
    assert read(FLOW) == Action(
        "ExperimentFlowCytometry",
        ("MAT-A1B2C3D4",),
        {
            "sample_volume": "100 µL",
            "flow_rate": "medium",
            "detector_voltages": "{FSC:400,SSC:500,FL1:600}",
            "compensation_enabled": "true",
        },
    )


def test_empty_lists_and_words_for_nothing_are_nothing():
    wanted = Action("SubmitMaterialsObservationsForReview")
    assert read("ACTION: SubmitMaterialsObservationsForReview\nMATERIALS:\nPARAMETERS:") == wanted
    assert read("ACTION: SubmitMaterialsObservationsForReview\nMATERIALS: none\nPARAMETERS: None") == wanted
    assert read("ACTION: SubmitMaterialsObservationsForReview") == wanted


def test_a_list_and_a_sentence_keep_their_commas():
    text = (
        "ACTION: X\nMATERIALS: MAT-1, MAT-2,\nMAT-3\n"
        "PARAMETERS: channels=GFP 475/525,RFP 555/605, question=Is it grey, or black?, speed=5"
    )
    assert read(text) == Action(
        "X",
        ("MAT-1", "MAT-2", "MAT-3"),
        {"channels": "GFP 475/525,RFP 555/605", "question": "Is it grey, or black?", "speed": "5"},
    )


def test_quotes_protect_what_looks_like_another_parameter():
    action = read('ACTION: X\nPARAMETERS: label="pH=7, salt=5", volume=1 mL')
    assert action.parameters == {"label": "pH=7, salt=5", "volume": "1 mL"}


def test_an_equals_sign_inside_a_value_belongs_to_it():
    assert read("ACTION: X\nPARAMETERS: label=pH=7").parameters == {"label": "pH=7"}


def test_prose_emphasis_fences_and_bullets_around_the_lines_are_passed_over():
    text = (
        "I shall mix them first, as the\nrecord shows.\n\n```\n**ACTION:** `Mix`\n**MATERIALS**: `MAT-1`\n"
        "PARAMETERS:\n- method=vortex\n- duration=1 min\n```\n\nThen I measure: pH=?"
    )
    assert read(text) == Action("Mix", ("MAT-1",), {"method": "vortex", "duration": "1 min"})


def test_an_object_says_the_same_as_the_three_lines():
    written = {"name": "Mix", "materials": ["MAT-1"], "parameters": {"speed": 300, "gentle": True, "keys": {"a": "1"}}}
    assert read(written) == Action("Mix", ("MAT-1",), {"speed": 300, "gentle": True, "keys": {"a": "1"}})
    assert read({"name": "Quit"}) == Action("Quit")


def test_the_objects_own_lists_are_copied():
    written = {"name": "Mix", "materials": ["MAT-1"], "parameters": {"channels": ["GFP"]}}
    action = read(written)
    written["parameters"]["channels"].append("RFP")
    assert action.parameters == {"channels": ["GFP"]}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "no line ACTION"),
        ("mix everything", "no line ACTION"),
        ("ACTION:\nMATERIALS: MAT-1", "name of one action"),
        ("ACTION: Mix\nACTION: Wait", "one action at a time"),
        ("ACTION: Mix\nPARAMETERS: a=1\nPARAMETERS: b=2", "stands twice"),
        ("ACTION: Mix\nPARAMETERS: a=1, a=2", "a stands twice"),
        ("ACTION: Mix\nPARAMETERS: quickly", "name=value"),
        ("ACTION: Mix\nPARAMETERS: v={FSC:4,SSC:5", "'}' is missing"),
        ('ACTION: Mix\nPARAMETERS: v="abc', "'\"' is missing"),
        ("ACTION: Mix\x00", "not text"),
        ("ACTION: Mix\ud800", "not text"),
        ("x" * (LONGEST + 1), "characters"),
        ("ACTION: Mix\nMATERIALS: " + "a," * 1001, "At most 1000"),
        (7, "text or an object"),
        ({"name": 7}, "name of one action"),
        ({"name": "Mix", "materials": 5}, "list of barcodes"),
        ({"name": "Mix", "materials": [None]}, "list of barcodes"),
        ({"name": "Mix", "parameters": []}, "values by name"),
        ({"name": "Mix", "parameters": {"a": float("nan")}}, "cannot be float"),
        # Python writes out no whole number of so many digits: it must not get as far as a transcript.
        ({"name": "Mix", "parameters": {"a": 10**5000}}, "cannot be int of that size"),
        ({"name": "Mix", 10**5000: 1}, "something that is no text"),
        ({"name": "Mix", "parameters": {"a": None}}, "cannot be NoneType"),
        ({"name": "Mix", "parameters": {"a": [[[[["b"]]]]]}}, "nested"),
        ({"name": "Mix", "barcode": "MAT-1"}, "'barcode'"),
    ],
)
def test_anything_else_is_refused_with_what_is_expected(written, reason):
    with pytest.raises(WireError, match=reason.replace("{", r"\{").replace("}", r"\}")):
        read(written)


@pytest.mark.parametrize("unit", ["{", "}", "=", ",", "\n", " ", '"', "a=", "a=1,", '="', "ACTION", "*", "(,", "MAT-"])
def test_time_grows_no_faster_than_the_text(unit):
    def reading(length):
        text = "ACTION: X\nMATERIALS: a\nPARAMETERS: k=" + unit * (length // len(unit))

        def read_it():
            with contextlib.suppress(WireError):
                read(text[:LONGEST])

        return read_it

    # Eight times the text; a reader that goes back over it takes 64 times as long.
    assert grows_with(reading(6_000), reading(48_000), times=24)


def test_no_text_whatever_breaks_the_reader():
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
    read_well = 0
    for _ in range(3000):
        text = "".join(rng.choices(parts, k=rng.randint(0, 30)))
        try:
            assert isinstance(read(text), Action)
            read_well += 1
        except WireError:
            continue
    assert read_well > 20  # the loop did not only see refusals
