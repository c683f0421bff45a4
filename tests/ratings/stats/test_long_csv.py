import pytest

from ratings.exchange import long_tables, rating_tables
from ratings.exchange.long_tables import ReadingOptions, UnreadableError
from ratings.stats.ratings_table import RepeatedRating

EXPORT = "study,item,pair,rater,verdict,confidence,source,perturbation,truth,simulated,occasion,surplus,cannot_judge,imported,note,counts"


def read_table(text: str, **reading) -> long_tables.LongTable:
    return long_tables.parse_long_csv(text.encode().splitlines(keepends=True), ReadingOptions(**reading))


def list_problems(text: str | bytes, **reading) -> list[str]:
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(UnreadableError) as caught:
        long_tables.parse_long_csv(raw.splitlines(keepends=True), ReadingOptions(**reading))
    return [str(problem) for problem in caught.value.problems]


def list_verdicts(found: long_tables.LongTable) -> list[object]:
    return [row.verdict for row in found.table.to_records()]


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("1", "0"), ("true", "FALSE"), ("plausible", "not plausible"), ("Plausible", "implausible"),
        ("sufficient", "insufficient"), ("valid", "Invalid"), ("yes", "no"), ("1.0", "0.0"), (" sufficient ", "not  sufficient"),
    ],
)  # fmt: skip
def test_words_for_yes_and_no_are_read_as_1_and_0(yes, no) -> None:
    found = read_table(f"item,rater,verdict\na,x,{yes}\nb,x,{no}\n")
    assert list_verdicts(found) == [1, 0] and found.table.is_binary


def test_file_with_only_the_verdict_1_still_has_two_categories() -> None:
    assert read_table("item,rater,verdict\na,x,1\nb,x,1\n").table.categories == (0, 1)


def test_numeric_categories_are_in_numeric_order() -> None:
    found = read_table("item,rater,verdict\na,x,10\nb,x,2\nc,x,0\n")
    assert found.table.categories == (0, 2, 10) and not found.table.is_binary


def test_any_word_can_be_a_category() -> None:
    found = read_table("item,rater,verdict\na,x,P\nb,x,N\nc,x,O\n")
    assert found.table.categories == ("N", "O", "P") and list_verdicts(found) == ["P", "N", "O"]


def test_declared_categories_keep_their_order_and_need_not_occur() -> None:
    found = read_table("item,rater,verdict\na,x,mid\nb,x,low\n", categories=("low", "mid", "high"))
    assert found.table.categories == ("low", "mid", "high")
    assert read_table("item,rater,verdict\na,x,2\n", categories=("0", "1", "2", "3")).table.categories == (0, 1, 2, 3)
    assert read_table("item,rater,verdict\na,x,plausible\n", categories=("0", "1")).table.categories == (0, 1)


def test_undeclared_verdict_is_reported_as_a_problem_with_its_line() -> None:
    assert list_problems("item,rater,verdict\na,x,1\nb,x,7\n", categories=("0", "1")) == [
        "line 3: verdict: is '7'; the declared categories are 0, 1"
    ]
    assert "at least two" in list_problems("item,rater,verdict\na,x,1\n", categories=("1",))[0]


def test_an_unknown_word_among_yes_and_no_is_a_problem_unless_declared() -> None:
    text = "item,rater,verdict\na,x,1\nb,x,0\nc,x,maybe\n"
    assert list_problems(text) == [
        "line 4: verdict: is 'maybe', all other verdicts are yes or no; if it is a category of its own, "
        "use --categories 0,1,maybe"
    ]
    assert read_table(text, categories=("0", "1", "maybe")).table.categories == ("0", "1", "maybe")


@pytest.mark.parametrize(
    ("others", "advice"),
    [
        (("Unsure", "unsure", "unsure"), "--categories 0,1,unsure"),
        (("2.0", "-1"), "--categories=-1,0,1,2"),
        (("not sure",), "--categories '0,1,not sure'"),
        (("a; b, c",), """--categories '0,1,"a; b, c"'"""),
    ],
)
def test_advice_on_categories_names_yes_no_and_every_other_word_once(others, advice) -> None:
    own = ["Yes", "plausible", "1.0", "TRUE", "no", "0", "not plausible", *others]
    text = "item,rater,verdict\n" + "".join(f'i{at},x,"{one}"\n' for at, one in enumerate(own))
    assert {said.partition("own, use ")[2] for said in list_problems(text)} == {advice}


def test_advice_on_categories_counts_words_beyond_its_limit() -> None:
    text = "item,rater,verdict\n" + "".join(f"i{at},x,{at % 2}\n" for at in range(30))
    said = list_problems(text + "".join(f"j{at},x,w{at}\n" for at in range(11)))
    assert len(said) == 11 and said[0].endswith("declare 0, 1 and all other categories with --categories")


def test_words_for_yes_and_no_are_read_beside_further_categories() -> None:
    text = "item,rater,verdict\na,x,Yes\nb,x,plausible\nc,x,0.0\nd,x,implausible\ne,x,Unsure\n"
    assert list_verdicts(read_table(text, categories=("1", "0", "unsure"))) == ["1", "1", "0", "0", "unsure"]
    assert list_verdicts(read_table(text.replace("Unsure", "2"), categories=("0", "1", "2"))) == [1, 1, 0, 0, 2]
    # N beside P and O is no "no" if there is no yes among them.
    assert list_problems("item,rater,verdict\na,x,0\n", categories=("P", "N", "O"))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (("1", "yes", "unsure"), "1 and yes all mean yes"),
        (("P", "N", "implausible"), "N and implausible all mean no"),
        (("plausible", "valid"), "plausible and valid all mean yes"),
    ],
)
def test_declared_categories_must_differ(declared, said) -> None:
    assert list_problems("item,rater,verdict\na,x,unsure\n", categories=declared) == [
        f"file: the declared categories {said}; declare only one of them"
    ]


@pytest.mark.parametrize("word", ["NA", "n/a", "NaN", "NULL", "None"])
def test_na_and_nan_are_no_verdicts_unless_declared(word) -> None:
    # Three of five: so many would otherwise be a category.
    text = f"item,rater,verdict\na,x,1\nb,x,0\nc,x,{word}\nd,x,{word}\ne,x,{word}\n"
    told = list_problems(text)
    assert [said.partition(": is")[0] for said in told] == [f"line {at}: verdict" for at in (4, 5, 6)]
    assert f"is {word!r}; leave out rows without a rating, or write: cannot judge; " in told[0]
    declared = read_table(text, categories=("0", "1", word.lower()))
    assert list_verdicts(declared) == ["1", "0", *[word.lower()] * 3]


def test_a_verdict_has_the_length_limit_of_a_name() -> None:
    (said,) = list_problems(f"item,rater,verdict\na,x,1\nb,x,{'7' * 5000}\n")
    assert said.startswith("line 3: verdict: is '777") and said.endswith("it must have 1 to 200 characters")
    assert read_table(f"item,rater,verdict\na,x,{'é' * 200}\nb,x,b\n").table.categories == ("b", "é" * 200)


def test_names_are_compared_in_unicode_form_nfc() -> None:
    composed, apart = "Jos\u00e9", "Jose\u0301"
    text = f"item,rater,verdict,source\ni{composed},{composed},1,{apart}\ni{apart},b,0,{composed}\nj,{apart},0,s\n"
    found = read_table(text).table
    assert (found.items, found.raters, found.sources) == ((f"i{composed}", "j"), (composed, "b"), (composed, "s"))
    assert read_table(text, raters=(apart,)).table.raters == (composed,)
    assert list_problems(text + f"j,{composed},1,s\n") == [
        f"line 5: rater {composed} already rated item j in line 4; each rater may rate an item once"
    ]
    assert repr(f"{apart}\u200b") in list_problems(f"item,rater,verdict\ni,{apart}\u200b,1\n")[0]


def test_rater_who_judged_no_item_is_accepted_as_a_known_rater() -> None:
    text = "item,rater,verdict\na,x,1\na,y,cannot judge\nb,y,cannot judge\n"
    found = read_table(text, raters=("x", "y"))
    assert found.left_out == {"could not be judged": 2} and found.table.raters == ("x",)
    assert list_problems(text, raters=("y",)) == [
        "file: no row has a rating by these raters; left out: could not be judged (2)"
    ]


def test_selecting_only_raters_with_repeated_ratings_is_reported_as_a_problem() -> None:
    text = f"{EXPORT}\ns,i,p,R1,1,4,gpt,none,1,0,2,0,0,0,,0\ns,i,p,R2,1,4,gpt,none,1,0,1,0,0,0,,1\n"
    assert list_problems(text, raters=("R1",)) == [
        "file: no row has a rating by these raters; left out: "
        "repeats by the same rater, used only for test-retest agreement (1)"
    ]


def test_a_duplicate_second_rating_names_both_lines() -> None:
    first, again = "s,i,p,R1,1,4,gpt,none,1,0,1,0,0,0,,1\n", "s,i,p,R1,1,4,gpt,none,1,0,2,0,0,0,,0\n"
    assert list_problems(f"{EXPORT}\n{first}{again}{again}") == [
        "line 4: rater R1 already rated item i again in line 3; only one repeat is allowed"
    ]


def test_categories_that_differ_only_in_case_are_noted() -> None:
    found = read_table("item,rater,verdict\na,x,good\nb,x,Good\nc,x,bad\n")
    assert found.notes == ("counted as different categories: Good and good",)


def test_truth_source_pair_and_confidence_are_optional_columns() -> None:
    found = read_table("item,rater,verdict,confidence,truth,source,pair\na,x,1,4.0,true,gpt,p1\nb,x,0,,,,\n")
    first, second = found.table.to_records()
    assert (first.confidence, first.reference, first.source, first.pair) == (4, 1, "gpt", "p1")
    assert (second.confidence, second.reference, second.source, second.pair) == (None, None, "no source given", "")


def test_ratings_without_a_source_are_a_group_only_if_other_ratings_have_a_source() -> None:
    assert read_table("item,rater,verdict,source\na,x,1,\nb,x,0,\n").table.sources == ("all",)
    assert read_table("item,rater,verdict,source\na,x,1,all\nb,x,0,\n").table.sources == ("all", "no source given")


def test_columns_can_have_other_names() -> None:
    found = read_table(
        "Item,Rater,Verdict,Ground truth,Model\na,x,1,0,gpt\n", truth="Ground truth", source="model"
    ).table.to_records()[0]
    assert (found.reference, found.source) == (0, "gpt")


def test_a_requested_column_must_exist() -> None:
    assert list_problems("item,rater,verdict\na,x,1\n", truth="gold") == [
        "line 1: gold: the first line must name the columns; missing: gold; it names: item, rater, verdict"
    ]


def test_all_problems_are_reported_with_line_and_column() -> None:
    text = (
        "item,rater,verdict,confidence,truth\n"
        "a,x,1,9,1\n"
        ",x,1,2,1\n"
        "c,,1,2,1\n"
        "d,x,,2,1\n"
        "e,x,1,two,1\n"
        "f,x,1,3,perhaps\n"
        "g,x,1\n"
    )
    assert list_problems(text) == [
        "line 2: confidence: is '9'; it must be 1, 2, 3, 4 or 5, or empty",
        "line 3: item: is ''; it must have 1 to 200 characters",
        "line 4: rater: is ''; it must have 1 to 200 characters",
        "line 5: verdict: is empty; leave out rows without a rating, or write: cannot judge",
        "line 6: confidence: is 'two'; it must be 1, 2, 3, 4 or 5, or empty",
        "line 7: truth: is 'perhaps'; it must be 1 or 0, true or false, or empty",
        "line 8: has 3 cells, the first line 5",
    ]


def test_a_duplicate_rating_names_both_lines() -> None:
    assert list_problems("item,rater,verdict\na,x,1\nb,x,1\na,x,0\n") == [
        "line 4: rater x already rated item a in line 2; each rater may rate an item once"
    ]


def test_an_item_with_two_truths_or_sources_is_a_problem() -> None:
    text = "item,rater,verdict,truth,source\na,x,1,1,s\na,y,1,0,t\na,z,1,true,s\n"
    assert list_problems(text) == [
        "line 3: truth: is '0', but '1' in line 2, for the same item a",
        "line 3: source: is 't', but 's' in line 2, for the same item a",
    ]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "file: the file is empty"),
        (b"item,rater,verdict\n", "file: no row has a rating"),
        (b"item,rater\na,x\n", "line 1: verdict: the first line must name the columns; missing: verdict; it names: item, rater"),
        (b"item,rater,verdict,verdict\na,x,1,1\n", "line 1: verdict: this column appears twice"),
        (b"PK\x03\x04rest", "file: this is a compressed file or a workbook; save the table as CSV first"),
        (b"item,rater,verdict\na,x,1\nb,\xff,1\n", "line 3: not UTF-8 at byte 3; save the table as CSV in UTF-8"),
        (b"item,rater,verdict\na,x\0,1\n", "line 2: contains the character NUL; save the table as CSV in UTF-8"),
        (b'item,rater,verdict\n"a,x,1\n', "line 2: not a table: unexpected end of data"),
    ],
)  # fmt: skip
def test_an_unreadable_file_names_the_line(raw, said) -> None:
    assert list_problems(raw) == [said]


def test_rows_before_an_unreadable_one_are_checked() -> None:
    assert len(list_problems(b"item,rater,verdict\n,x,1\nb,\xff,1\n")) == 2


def test_a_cell_can_contain_a_line_break_and_lines_are_still_counted() -> None:
    text = 'item,rater,verdict,note\na,x,1,"two\nlines"\n\nb,x,,\n'
    assert list_problems(text)[0].startswith("line 5: verdict")


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_commas_semicolons_and_tabs_separate_cells(sign) -> None:
    assert list_verdicts(read_table(f"\ufeffitem{sign}rater{sign}verdict\r\na{sign}x{sign}1\r\n")) == [1]


def test_the_apostrophe_of_an_export_is_removed() -> None:
    assert read_table("item,rater,verdict\n'=1+1,'-x,1\n").table.items == ("=1+1",)


def test_an_apostrophe_of_a_name_is_kept() -> None:
    # Without it a and 'a would be one item. The export doubles the first apostrophe of a name that has one.
    assert read_table("item,rater,verdict\n'a,x,1\na,x,0\n'',x,1\n''b,x,0\n").table.items == ("'", "'a", "'b", "a")


@pytest.mark.parametrize("text", ["=1", "'", "''", "'a", "a", "", "＝1", " @x", "'=1", "o'clock", "\tx"])
def test_exported_cells_read_back_the_same(text) -> None:
    assert rating_tables.restore_cell(rating_tables.escape_cell(text)) == text


def test_chosen_raters_are_read_but_the_whole_file_is_checked() -> None:
    text = "item,rater,verdict\na,x,1\na,y,0\na,z,1\n"
    assert read_table(text, raters=("x", "z")).table.raters == ("x", "z")
    assert list_problems(text, raters=("x", "Q")) == ["file: rater: there is no rater 'Q'; the raters are x, y, z"]
    assert "line 5" in list_problems(text + "b,y,\n", raters=("x",))[0]


def test_categories_are_taken_from_the_ratings_of_the_chosen_raters() -> None:
    text = "item,rater,verdict\na,x,A\nb,x,B\na,y,C\n"
    assert read_table(text, raters=("x",)).table.categories == ("A", "B")


def test_ratings_with_cannot_judge_are_left_out_with_a_note() -> None:
    found = read_table("item,rater,verdict\na,x,1\nb,x,cannot judge\n")
    assert found.left_out == {"could not be judged": 1} and len(found.table) == 1


def test_truths_are_ignored_with_a_note_if_verdicts_are_categories() -> None:
    found = read_table("item,rater,verdict,truth\na,x,A,A\nb,x,B,A\n")
    assert found.notes == ("references and truths are not used, because the verdicts are categories",)


def test_reference_is_the_perturbation_or_else_the_truth() -> None:
    found = read_table(
        "item,rater,verdict,perturbation,truth\na,x,1,none,\nb,x,0,subtle,\nc,x,1,none,0\nd,x,1,,1\ne,x,1,,0\nf,x,1,,\n"
    ).table
    # c is unperturbed although its simulator was wrong; d and e are declared; nothing is known of f.
    assert found.item_reference.tolist() == [1, 0, 1, 1, 0, -1]
    assert found.reference_name == "mixed"
    assert read_table("item,rater,verdict,perturbation\na,x,1,none\nb,x,0,subtle\n").table.reference_name == "planted"
    assert read_table("item,rater,verdict,truth\na,x,1,1\nb,x,0,0\n").table.reference_name == "declared"
    assert read_table("item,rater,verdict\na,x,1\n").table.reference_name == "unknown"


def test_reference_column_of_an_export_is_used_and_empty_means_unknown() -> None:
    found = read_table(
        "item,rater,verdict,perturbation,truth,reference\na,x,1,none,,unperturbed\nb,x,0,none,1,\n"
    ).table
    assert found.item_reference.tolist() == [1, -1]
    assert list_problems("item,rater,verdict,reference\na,x,1,right\n") == [
        "line 2: reference: is 'right'; it must be planted, unperturbed, declared wrong, declared right, or empty"
    ]


def test_exported_file_is_read_with_the_same_ratings_that_count_in_the_study() -> None:
    text = f"{EXPORT}\n" + "".join(
        f"s,{line}\n"
        for line in (
            "i1,p1,R1,1,4,gpt,none,1,0,1,0,0,0,,1",
            "i2,p1,R1,0,5,gpt,subtle,0,0,1,0,0,0,,1",
            "i3,p2,R1,,,gpt,none,1,0,1,0,1,0,,1",
            "i1,p1,R2,1,4,gpt,none,1,0,1,1,0,0,,0",
            "i2,p1,R2,1,4,gpt,subtle,0,0,1,0,0,0,,0",
            "i1,p1,R1,0,2,gpt,none,1,0,2,0,0,0,,0",
            ",,R3,1,4,,,,0,1,0,0,1,,1",
        )
    )
    found = read_table(text)
    assert [(row.item, row.source, row.reference) for row in found.table.to_records()] == [
        ("i1", "gpt", 1), ("i2", "gpt, subtle", 0),
    ]  # fmt: skip
    assert found.repeats == (RepeatedRating("i1", "R1", 1, 0),)
    assert found.left_out == {
        "could not be judged": 1,
        "surplus: the item already had all its ratings": 1,
        "submitted after the item had been reassigned": 1,
        "repeats by the same rater, used only for test-retest agreement": 1,
        "imported ratings, whose items are not in the blinded export": 1,
    }


def test_an_invalid_flag_of_an_export_is_a_problem() -> None:
    assert list_problems(f"{EXPORT}\ns,i,p,R1,1,4,gpt,none,1,0,1,0,0,0,,x\n")[0].startswith("line 2: counts: is 'x'")


def test_long_table_is_independent_of_row_order() -> None:
    rows = [f"i{i},R{j},{(i + j) % 2}\n" for i in range(5) for j in range(3)]
    one, two = (
        read_table("item,rater,verdict\n" + "".join(rows)),
        read_table("item,rater,verdict\n" + "".join(rows[::-1])),
    )
    assert one.table.to_records() == two.table.to_records()
