import random
from pathlib import Path

import pytest

from ratings.exchange.archive import imrmc
from ratings.stats import areas, mrmc
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from tests.support import imrmc_reader
from tests.support.imrmc_reader import FormatError, Reading
from tests.support.reader_studies import VAN_DYKE, build_reader_study

TABLE = build_ratings_table(
    [
        RatingRecord("i1", "R1", 1, 5, 1, "genuine"),
        RatingRecord("i2", "R1", 0, 4, 0, "subtle"),
        RatingRecord("i3", "R1", 1, 2, 0, "subtle"),
        RatingRecord("i1", "R2", 0, 1, 1, "genuine"),
        RatingRecord("i2", "R2", 0, 5, 0, "subtle"),
        RatingRecord("i4", "R2", 0, 5, 0, "obvious"),
        RatingRecord("i5", "R2", 1, None, 1, "genuine"),
    ]
)


def format_imrmc(table: Ratings, source: str) -> str:
    return "".join(imrmc.format_source_study(table, source))


def test_imrmc_file_has_sizes_truths_and_readings_of_one_error_source() -> None:
    # The score is more of the signal: +5 plausible is -5, -4 implausible is 4. i5 has no confidence, i4 is of another
    # source.
    head, data = format_imrmc(TABLE, "subtle").split("BEGIN DATA:\n")
    assert "NR: 2\nN0: 1\nN1: 2\nNM: 1\n" in head and "no confidence: 1\n" in head and "not run in iMRMC" in head
    assert data == (
        "-1,i1,truth,0\n-1,i2,truth,1\n-1,i3,truth,1\n"
        "R1,i1,rating,-5\nR2,i1,rating,1\nR1,i2,rating,4\nR2,i2,rating,5\nR1,i3,rating,-2\n"
    )


def test_imrmc_file_reads_back_the_same_ratings() -> None:
    whole = TABLE.select_against_unperturbed("subtle")
    back = imrmc_reader.parse_reader_study(format_imrmc(TABLE, "subtle"))
    rows = back.to_ratings("rating").to_records()
    expected = [row for row in whole.to_records() if row.confidence is not None]
    assert [row[:5] for row in rows] == [row[:5] for row in expected]
    again = "".join(imrmc.format_source_study(back.to_ratings("rating"), "signal"))
    assert again.split("BEGIN DATA:")[1] == format_imrmc(TABLE, "subtle").split("BEGIN DATA:")[1]


def test_imrmc_file_reads_back_to_the_same_mean_area() -> None:
    study = build_reader_study(VAN_DYKE["1"], 69)
    back = imrmc_reader.parse_reader_study(format_imrmc(study, "all")).to_ratings("rating")
    before, after = (mrmc.estimate_mean_auc(table)[0] for table in (study, back))
    assert (after.value, after.low, after.high) == pytest.approx((before.value, before.low, before.high))


HOSTILE = [
    "-1",
    "truth",
    "a,b",
    "line\nend",
    " spaces ",
    "100%",
    '"quoted"',
    "=cmd()",
    "Müller",
    "",
    "\u2028",
    "BEGIN DATA:",
]


def test_imrmc_file_preserves_names_that_look_like_the_format() -> None:
    rows = [
        RatingRecord(f"{name}{at}", name, 1, 3, at, "genuine" if at else "error") for name in HOSTILE for at in (0, 1)
    ]
    rows += [RatingRecord(name, "R", 1, 3, 0, "error") for name in HOSTILE]
    table = build_ratings_table(rows)
    text = format_imrmc(table, "error")
    assert all(len(line.split(",")) == 4 for line in text.split("BEGIN DATA:\n")[1].splitlines())
    back = imrmc_reader.parse_reader_study(text).to_ratings("rating")
    assert set(back.raters) == {*HOSTILE, "R"} and back.items == table.items


def test_imrmc_file_preserves_any_name() -> None:
    # Whatever a name may begin and end with, and whether or not it must be encoded: 400 of them, always the same.
    rng = random.Random(7)
    signs = " %,-1truhü水é\u00a0\u2028\n\t\r\x00\x1c\x85\"':;+😀\u0301"
    names = {"Ünal ", " Ünal", " %", "% ", " ü ", "  ", " -1 ", "truth "}
    names |= {"".join(rng.choices(signs, k=rng.randint(0, 5))) for _ in range(400)}
    table = build_ratings_table(
        [
            RatingRecord(name, name, 1, 3, at % 2, "genuine" if at % 2 else "error")
            for at, name in enumerate(sorted(names))
        ]
    )
    back = imrmc_reader.parse_reader_study("".join(imrmc.format_source_study(table, "error", modality=" Ünal%")))
    assert back.modality_names == (" Ünal%",)
    assert {(reading.reader, reading.case) for reading in back.readings} == {(name, name) for name in names}
    assert set(back.truth) == names


# The form of Van Dyke's study in RJafroc, tests/testthat/goodValues/dataset02.imrmc; eight of its readings.
RJAFROC = """dataset Data File
N0:69
N1:45
NR:5
NM:2
BEGIN DATA:
-1,1,truth,0
-1,5,truth,0
-1,70,truth,1
-1,74,truth,1
0,1,0,1.000000
0,5,0,5.000000
0,70,0,5.000000
0,74,0,4.000000
0,1,1,3.000000
0,5,1,2.000000
0,70,1,5.000000
0,74,1,5.000000
"""


def test_imrmc_file_of_another_program_is_read_by_modality() -> None:
    study = imrmc_reader.parse_reader_study(RJAFROC)
    assert study.modality_names == ("0", "1") and study.truth == {"1": 0, "5": 0, "70": 1, "74": 1}
    assert study.description[0] == "dataset Data File" and study.readings[1] == Reading("0", "5", "0", 5.0)
    # diseased 5, 4 against 1, 5: 5 beats 1 and ties 5, 4 beats 1: 2.5 of 4
    assert areas.estimate_signed(study.to_ratings("0"), "signal").value == 2.5 / 4


def test_imrmc_reader_accepts_trailing_commas_and_spaces_as_in_the_fda_examples() -> None:
    # As in DIDSR/iMRMC, 000_iMRMC/inputFiles: test_binary_data.imrmc (commas) and forDebugging/test.imrmc (spaces,
    # names of cases, and an N0 that does not count right).
    text = "Simulated,,,\nNR: 5,,,\nN0: 24,,,\n,,,\nBEGIN DATA:,,,\n-1 , case1 , modality should not , 0\n-1,26,0,1\n"
    study = imrmc_reader.parse_reader_study(
        text + " reader 1 ,case1, modality 1 ,1.000000\n reader 1,26, modality 1,0.00E+00\n\n"
    )
    assert study.readings[0] == Reading("reader 1", "case1", "modality 1", 1.0) and study.truth["26"] == 1
    with pytest.raises(ValueError, match="the score 0 is not a signed confidence"):
        study.to_ratings("modality 1")


def test_imrmc_reader_reports_all_problems_with_their_lines() -> None:
    text = "BEGIN DATA:\n-1,1,0,0\n-1,1,0,1\n-1,2,0,7\n1,1,m,3\n1,1,m,4\n1,9,m,2\n1;2\n1,1,n,much\n1,1,n,inf\n"
    with pytest.raises(FormatError) as raised:
        imrmc_reader.parse_reader_study(text)
    assert raised.value.problems == (
        "line 3: the truth of case 1 is given twice",
        "line 4: the truth of case 2 is 7, not 0 or 1",
        "line 6: reader 1 has case 1 in modality m twice",
        "line 8: 1 fields instead of reader, case, modality, score",
        "line 9: the score 'much' is not a number",
        "line 10: the score 'inf' is not a number",
        "case 9 has no truth",
    )


def test_imrmc_reader_rejects_a_text_without_begin_data() -> None:
    with pytest.raises(FormatError, match='no line "BEGIN DATA:"'):
        imrmc_reader.parse_reader_study("begin data:\n1,1,1,1\n")


def test_imrmc_file_of_two_conditions_has_two_modalities_with_the_same_cases() -> None:
    # Each reader reads the unperturbed and the planted case in both conditions; versions of a case share a pair.
    rows = [
        RatingRecord(f"{condition}{pair}", reader, verdict, 3, reference, "s", pair)
        for reader in ("R1", "R2")
        for condition, verdict in (("a", 1), ("b", 0))
        for pair, reference in (("genuine", 1), ("error", 0))
    ]
    of_item = {row.item: 1 if row.item.startswith("a") else 2 for row in rows}
    text = "".join(imrmc.format_condition_study(build_ratings_table(rows), of_item))
    assert "NR: 2\nN0: 1\nN1: 1\nNM: 2\n" in text
    back = imrmc_reader.parse_reader_study(text)
    assert back.modality_names == ("condition 1", "condition 2")
    assert back.truth == {"aerror": 1, "agenuine": 0}
    assert Reading("R1", "aerror", "condition 2", 3.0) in back.readings and len(back.readings) == 8


def test_imrmc_file_has_two_cases_for_versions_with_and_without_an_error() -> None:
    rows = [
        RatingRecord(f"{condition}{name}", "R1", 1, 3, reference, "s", "one pair")
        for condition in "ab"
        for name, reference in (("genuine", 1), ("error", 0))
    ]
    of_item = {row.item: 1 if row.item.startswith("a") else 2 for row in rows}
    assert "N0: 1\nN1: 1\nNM: 2\n" in "".join(imrmc.format_condition_study(build_ratings_table(rows), of_item))


def test_imrmc_file_preserves_published_readings_in_two_conditions() -> None:
    tables = [build_reader_study(VAN_DYKE[condition], 69) for condition in ("1", "2")]
    rows = [
        row._replace(item=f"{row.item} {at}", pair=row.item)
        for at, table in enumerate(tables)
        for row in table.to_records()
    ]
    of_item = {row.item: 1 + int(row.item[-1]) for row in rows}
    back = imrmc_reader.parse_reader_study("".join(imrmc.format_condition_study(build_ratings_table(rows), of_item)))
    for at, table in enumerate(tables):
        found = mrmc.estimate_mean_auc(back.to_ratings(f"condition {at + 1}"))[0]
        assert found.value == pytest.approx(mrmc.estimate_mean_auc(table)[0].value, abs=1e-12)


# An example of the program's authors: Rpackage/iMRMC/tests/testthat/input.imrmc in DIDSR/iMRMC, in the public domain (CC0).
EXAMPLE = Path(__file__).with_name("imrmc_example.imrmc")


def test_imrmc_example_of_the_programs_authors_is_read_as_the_program_reads_it() -> None:
    # The sizes and areas are those that the program's own reader gave for this file (class InputFile of commit ad589e57).
    text = EXAMPLE.read_text()
    study, program = imrmc_reader.parse_reader_study(text), imrmc_reader.read_as_the_program(text)
    assert program.count_sizes() == {"NR": 5, "N0": 40, "N1": 40, "NM": 2} and program.sizes == {}
    assert program.compute_mean_area("testA") == pytest.approx(0.704375)
    assert program.compute_mean_area("testB") == pytest.approx(0.7585)
    assert study.truth == program.truth
    assert {(one.reader, one.case, one.modality): one.score for one in study.readings} == program.scores


def write_condition_study() -> str:
    rows = [
        RatingRecord(f"{twin} {n}", f"R{rater}", (n + rater + twin) % 2, 1 + (n * rater) % 5, n % 2, "s", pair=f"p{n}")
        for n in range(6)
        for rater in range(1, 4)
        for twin in (1, 2)
    ]  # fmt: skip
    condition = {f"{twin} {n}": twin for n in range(6) for twin in (1, 2)}
    return "".join(imrmc.format_condition_study(build_ratings_table(rows), condition))


@pytest.mark.parametrize(
    "text",
    [
        format_imrmc(TABLE, "subtle"), format_imrmc(build_reader_study(VAN_DYKE["1"], 69), "all"), write_condition_study(),
    ],
    ids=["small", "published", "conditions"],
)  # fmt: skip
def test_imrmc_file_is_read_by_the_rules_of_the_programs_reader(text: str) -> None:
    program, own = imrmc_reader.read_as_the_program(text), imrmc_reader.parse_reader_study(text)
    assert program.sizes == program.count_sizes()
    # The program removes every space from a name.
    assert program.scores == {
        tuple("".join(name.split()) for name in (one.reader, one.case, one.modality)): one.score for one in own.readings
    }
    assert program.truth == {"".join(case.split()): truth for case, truth in own.truth.items()}


@pytest.mark.parametrize("source", ["gen1: a", "n0:", "NM: NR: N1:", "\u0131n1:"])
def test_imrmc_header_has_no_source_that_the_program_reads_as_a_size(source: str) -> None:
    rows = [RatingRecord("i1", "R1", 1, 5, 1, "genuine"), RatingRecord("i2", "R1", 0, 4, 0, source)]
    program = imrmc_reader.read_as_the_program(format_imrmc(build_ratings_table(rows), source))
    assert program.sizes == {"NR": 1, "N0": 1, "N1": 1, "NM": 1}
