"""A Sanger read starts at the one primer in the reaction."""

import pytest

from tests.support.laboratory_factory import SmallLab, build_material


def declare_read(signal, primer, text):
    return {
        "action": "DNASequencing", "signal": signal, "requires": ["amplicon"], "values": {"dna": text},
        "chosen": {"primer_tube": {"holds": primer}},
    }  # fmt: skip


@pytest.fixture
def small(lab):
    primers = {"F primer": "1 µM", "R primer": "1 µM"}
    return SmallLab(
        lab.catalogue,
        build_material("dna", contents=primers, hidden={"amplicon": "30 ng/µL"}),
        build_material("forward", contents={"F primer": "5 µM"}),
        build_material("reverse", contents={"R primer": "5 µM"}),
        build_material("mixed", contents=primers),
        build_material("other", contents={"M13 primer": "5 µM"}),
        build_material("water"),
        truth={
            "lookups": [
                declare_read("forward read", "F primer", "ATG"),
                declare_read("reverse read", "R primer", "TAA"),
            ]
        },
    )


def read(small, tube, **parameters):
    step = small.run_step(
        "DNASequencing", f"dna {tube}".strip(), **({"primer_tube": f"@{tube}"} if tube else {}), **parameters
    )
    assert step.outcome.success, step.outcome.failure_reason
    return [(seen.description.rpartition(": ")[2], seen.value) for seen in step.outcome.new_observations]


@pytest.mark.parametrize(
    ("tube", "found"),
    [
        ("forward", [("forward read", "ATG")]),
        ("reverse", [("reverse read", "TAA")]),
        ("mixed", [("read", "superimposed peaks from the first base on")]),
        ("other", [("read", "no readable signal")]),
        ("", [("read", "no readable signal")]),
    ],
)
def test_sanger_read_is_that_of_the_primer_in_the_tube(small, tube, found):
    assert read(small, tube) == found


def test_primers_left_from_the_amplification_disturb_the_read_unless_the_sample_is_cleaned_up(small):
    assert read(small, "forward", clean_up=False) == [("read", "superimposed peaks from the first base on")]
    assert read(small, "forward", clean_up=True) == [("forward read", "ATG")]


def test_nanopore_reads_both_strands_without_a_primer(small):
    assert read(small, "", method="nanopore") == [("forward read", "ATG"), ("reverse read", "TAA")]


def test_sample_without_the_template_gives_no_read(small):
    step = small.run_step("DNASequencing", "water forward", primer_tube="@forward")
    assert [seen.value for seen in step.outcome.new_observations] == ["no readable signal"]
