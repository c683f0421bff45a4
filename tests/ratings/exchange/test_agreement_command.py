import csv
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, load_command_class

from ratings.models import Study
from ratings.results.rating_rows import iter_rating_rows
from ratings.stats import summary
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from tests.support import run_factory, study_factory

# Only the last test may use a database: pytest-django refuses access unless a test requests it.
BINARY = "item,rater,verdict\n" + "".join(
    f"i{i},{who},{(i + at * (i % 5 == 0)) % 2}\n" for i in range(30) for at, who in enumerate("ab")
)


def run(*arguments: object) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("agreement", *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def results(*arguments: object) -> list[dict[str, object]]:
    return json.loads(run(*arguments, "--json", "--resamples", 20)[0])


def one(rows, stat: str, **args):
    return next(row for row in rows if row["stat"] == stat and row["args"] == args)


def refused(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command("agreement", *map(str, arguments), stdout=out, stderr=err)
    assert out.getvalue() == ""
    return caught.value.returncode, str(caught.value), err.getvalue()


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text(BINARY)
    return path


def test_agreement_needs_only_item_rater_and_verdict(ratings) -> None:
    rows = results(ratings)
    # a and b differ where i % 5 == 0, on 6 of 30 items; a says 1 to 15, b to 12 + 6 * (0 for 0, 10, 20; 1 -> 0 for 5, 15, 25):
    # b's odd items but 5, 15, 25, and 0, 10, 20: 15 as well. pe = 1/2, kappa = (24/30 - 1/2)/(1/2) = 3/5.
    assert one(rows, "percent_agreement", raters=["a", "b"])["value"] == pytest.approx(24 / 30)
    assert one(rows, "cohen_kappa", raters=["a", "b"])["value"] == pytest.approx(3 / 5)
    assert one(rows, "avg_pairwise_kappa", min_overlap=20)["value"] == pytest.approx(3 / 5)
    # Brennan and Prediger: 2 * 24/30 - 1.
    assert one(rows, "brennan_prediger")["value"] == pytest.approx(3 / 5)
    assert one(rows, "auc_confidence_correct")["value"] is None
    assert all(row["reason"] for row in rows if row["value"] is None)


def test_agreement_summary_names_seed_and_resamples(ratings) -> None:
    text, _ = run(ratings, "--resamples", 20, "--seed", 3)
    assert text.startswith("60 ratings of 30 items by 2 raters.")
    assert "95% intervals; 20 resamples, seed 3." in text
    assert "Cohen's kappa of two raters" in text and "0.600" in text and "n: 30 items, 2 raters, 60 ratings" in text


def test_agreement_marks_a_kappa_of_raters_who_share_fewer_items_than_the_minimum(ratings) -> None:
    rows = results(ratings, "--min-overlap", 31)
    marked = one(rows, "avg_pairwise_kappa", min_overlap=31)
    assert (marked["value"], marked["low"]) == (pytest.approx(3 / 5), None)
    assert marked["reason"] == "few items: no pair shares 31 items, the most is 30; no interval is reliable"
    assert one(rows, "avg_pairwise_kappa", min_overlap=1)["value"] == pytest.approx(3 / 5)


def test_agreement_counts_declared_categories_that_do_not_occur(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,rater,verdict\n" + "".join(f"{i},{who},{i % 2 + 1}\n" for i in range(4) for who in "ab"))
    # 1 and 2 observed; with four declared chance agreement is 1/4, agreement 1: both are 1. One item torn:
    path.write_text(path.read_text() + "9,a,1\n9,b,2\n")
    # pa = 4/5; pe = 1/2: 3/5. pe = 1/4: (4/5 - 1/4)/(3/4) = 11/15.
    assert one(results(path), "brennan_prediger")["value"] == pytest.approx(3 / 5)
    declared = results(path, "--categories", "1,2,3,4")
    assert one(declared, "brennan_prediger")["value"] == pytest.approx(11 / 15)


def test_agreement_command_suggests_options_for_an_unknown_verdict_that_work_when_pasted(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    said = [("Yes", "1"), ("plausible", "TRUE"), ("no", "0.0"), ('"unsure, rather"', '"Unsure, rather"')]
    path.write_text(
        "item,rater,verdict\n" + "".join(f"{i},a,{one}\n{i},b,{two}\n" for i, (one, two) in enumerate(said))
    )
    told = refused(path)[2].splitlines()[0]
    rows = results(path, *shlex.split(told.partition("own, use ")[2]))
    # Yes and 1, plausible and TRUE, no and 0.0, and both unsure: they agree on 4 of 4; the verdict is 1 in 2 of 4 items.
    agreed = one(rows, "percent_agreement", raters=["a", "b"])
    assert (agreed["value"], agreed["n"]["items"]) == (1, 4)
    assert one(rows, "prevalence", category="1")["value"] == 1 / 2


def test_agreement_accepts_negative_categories_after_an_equals_sign(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,rater,verdict\n1,a,-1\n1,b,-1\n2,a,0\n2,b,1\n")
    # pa = 1/2, pe = 1/3: (1/2 - 1/3) / (2/3) = 1/4
    assert one(results(path, "--categories=-1,0,1"), "brennan_prediger")["value"] == pytest.approx(1 / 4)
    assert (
        "--categories=-1,0,1" in load_command_class("ratings", "agreement").create_parser("", "agreement").format_help()
    )


@pytest.mark.parametrize("option", ["--raters", "--categories"])
@pytest.mark.parametrize("nothing", ["", ",", " , ", "a\nb"])
def test_agreement_rejects_an_empty_option(ratings, option, nothing) -> None:
    with pytest.raises(CommandError, match="has no names"):
        run(ratings, option, nothing)


def test_agreement_computes_localisation_from_the_localised_column_of_any_file(tmp_path) -> None:
    """Of four detected errors two were located and one was not; for one it is unknown. All other items are in no share."""
    path = tmp_path / "ratings.csv"
    lines = ["1,a,0,0,1", "1,b,0,0,no", "2,a,0,0,true", "2,b,0,0,", "3,a,1,0,0", "4,a,1,1,", "4,b,0,1,0"]
    path.write_text("item,rater,verdict,truth,localised\n" + "\n".join(lines))
    row = one(results(path), "localisation")
    assert row["value"] == pytest.approx(2 / 3) and row["reference"] == "declared"
    assert (row["n"]["ratings"], row["n"]["k"], row["n"]["untold"]) == (3, 2, 1)
    text, _ = run(path, "--resamples", 0)
    assert "LOCALISATION OF ERRORS" in text and "\nOTHER\n" not in text
    path.write_text(path.read_text().replace("0,no", "0,perhaps"))
    assert refused(path)[2].splitlines() == [
        "line 3: localised: is 'perhaps'; it must be 1 or 0, true or false, or empty"
    ]


def test_agreement_reports_no_localisation_without_marks(ratings) -> None:
    assert not [row for row in results(ratings) if row["stat"] == "localisation"]


def test_agreement_uses_the_columns_and_raters_named_in_its_options(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(
        "item,rater,verdict,gold,arm\n" + "".join(f"{i},{who},1,{i % 2},s{i % 2}\n" for i in range(4) for who in "abc")
    )
    rows = results(path, "--truth-column", "gold", "--source-column", "arm", "--raters", "a,c")
    assert one(rows, "plausibility_rate", source="s0")["n"]["raters"] == 2
    assert [row["args"]["raters"] for row in rows if row["stat"] == "cohen_kappa"] == [["a", "c"]]
    assert one(rows, "sensitivity")["value"] == 0
    assert "there is no rater 'z'" in refused(path, "--raters", "a,z")[2]


def test_agreement_computes_nothing_from_a_file_with_problems(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,rater,verdict,confidence\na,x,1,3\na,x,0,3\nb,x,1,7\n")
    code, said, told = refused(path, "--json")
    assert (code, said) == (1, "2 problems; nothing was computed")
    assert told.splitlines() == [
        "line 3: rater x already rated item a in line 2; each rater may rate an item once",
        "line 4: confidence: is '7'; it must be 1, 2, 3, 4 or 5, or empty",
    ]


def test_agreement_prints_only_the_first_problems_and_their_number(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,rater,verdict\n" + "a,x,\n" * 80)
    code, _, told = refused(path)
    assert code == 1 and told.splitlines()[-1].startswith("and ") and len(told.splitlines()) == 51


def test_agreement_reports_a_missing_file_and_wrong_options(ratings) -> None:
    assert refused("nowhere.csv")[0] == 2
    for wrong in (["--min-overlap", "0"], ["--resamples", "-1"], ["--seed", "x"]):
        with pytest.raises(CommandError, match="not a whole number from"):
            run(ratings, *wrong)


def test_agreement_escapes_control_characters_in_names(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("item,rater,verdict\na,\x1b[2Jx,\n")
    assert "\x1b" not in refused(path)[2]


def test_agreement_reports_left_out_ratings_on_stderr_beside_json_output(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(BINARY + "last,a,cannot judge\n")
    assert run(path, "--json", "--resamples", 0)[1] == "left out: 1 rating: could not be judged\n"
    assert "Left out: 1 rating: could not be judged." in run(path, "--resamples", 0)[0]


def test_agreement_reads_standard_input_without_a_database(tmp_path) -> None:
    environment = {
        **os.environ,
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "WETBENCH_VAR_DIR": str(tmp_path),
    }
    command = [sys.executable, "manage.py", "agreement", "-", "--json", "--resamples", "20"]
    done = subprocess.run(command, input=BINARY, capture_output=True, text=True, env=environment, check=True)
    assert one(json.loads(done.stdout), "cohen_kappa", raters=["a", "b"])["value"] == pytest.approx(3 / 5)
    assert done.stderr == "" and not list(tmp_path.glob("*.sqlite3"))


def test_agreement_names_what_it_withholds_and_how_to_ask_for_it(ratings) -> None:
    text = run(ratings, "--min-overlap", 31, "--resamples", 20)[0]
    ending = text[text.index("WITHHELD: ") :]
    assert "  Cohen's kappa of two raters: 1, few items: 30 items in common, fewer than 31\n" in ending
    assert ending.endswith("  To print them all the same, marked as unstable, add --show-unstable.\n")
    error = run(ratings, "--min-overlap", 31, "--resamples", 20, "--json")[1]
    assert error.startswith("withheld: ") and "--show-unstable" in error


def test_agreement_shows_unstable_intervals_marked_in_text_json_and_csv(ratings) -> None:
    options = ("--min-overlap", 31, "--resamples", 20)
    plain = one(results(ratings, *options), "cohen_kappa", raters=["a", "b"])
    assert plain["withheld"] and plain["low"] is None and "unstable" not in plain
    shown = one(results(ratings, *options, "--show-unstable"), "cohen_kappa", raters=["a", "b"])
    # kappa 3/5 with margins of 1/2: Var = (1 - 3/5)(1 + 3/5)/30 (Fleiss, Cohen and Everitt 1969), so +- 1.96 * .1461
    assert (shown["low"], shown["high"]) == (
        pytest.approx(0.6 - 0.2863, abs=1e-4),
        pytest.approx(0.6 + 0.2863, abs=1e-4),
    )
    assert shown["unstable"] and shown["reason"] == plain["reason"] and "withheld" not in shown
    text, _ = run(ratings, *options, "--show-unstable")
    assert "0.314 to 0.886  ? " in text and "(?) unstable: " in text and "WITHHELD" not in text
    assert "unstable: few items: 30 items in common, fewer than 31" in text
    rows = list(csv.DictReader(io.StringIO(run(ratings, *options, "--show-unstable", "--csv")[0])))
    kappa = next(row for row in rows if row["stat"] == "cohen_kappa")
    assert (kappa["unstable"], kappa["withheld"], json.loads(kappa["args"])) == ("1", "0", {"raters": ["a", "b"]})
    assert float(kappa["low"]) == shown["low"] and kappa["of"] == "a and b"


def test_agreement_with_unstable_intervals_changes_no_other_result(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(
        "item,rater,verdict,confidence,truth\n"
        + "".join(
            f"i{i},{rater},{(i + at * (i % 3 == 0)) % 4 > 0:d},{1 + (2 * i + at) % 5},{i % 2}\n"
            for i in range(40)
            for at, rater in enumerate("abcd")
            if (i + at) % 4
        )
    )
    plain, shown = results(path), results(path, "--show-unstable")
    assert len(plain) == len(shown) and any(row.get("unstable") for row in shown)
    pairs = list(zip(plain, shown, strict=True))
    assert [two for two in pairs if two[0] != two[1] and not two[0].get("withheld")] == []


def test_agreement_help_has_examples() -> None:
    text = load_command_class("ratings", "agreement").create_parser("manage.py", "agreement").format_help()
    assert "manage.py agreement ratings.csv --min-overlap 10 --show-unstable" in text


@pytest.mark.thorough
def test_agreement_handles_a_hundred_thousand_ratings(tmp_path) -> None:
    path = tmp_path / "ratings.csv"
    with path.open("w") as stream:
        stream.write("item,rater,verdict,confidence,truth,source\n")
        for i in range(25_000):
            for at in range(4):
                verdict, rater = (i // 7 + at * (i % 3)) % 2, (i * 4 + at) % 20
                stream.write(f"i{i},R{rater},{verdict},{1 + (i + at) % 5},{i % 2},s{i % 4}\n")
    rows = results(path)
    assert one(rows, "avg_pairwise_agreement", min_overlap=20)["n"]["ratings"] == 100_000


@pytest.mark.django_db
def test_agreement_command_on_an_exported_file_prints_the_results_of_the_study(tmp_path, admin_user) -> None:
    run_factory.create_pool()
    document = tmp_path / "protocol.json"
    document.write_text(json.dumps(study_factory.build_protocol()))
    for command in (
        ["create_study", str(document), "--open", "--raters", "6"],
        ["simulate_raters", "small-study", "--raters", "6", "--seed", "3"],
        ["unblind", "small-study", "--by", admin_user.username],
    ):
        call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())
    out = io.StringIO()
    call_command("export_ratings", "small-study", stdout=out)
    path = tmp_path / "ratings.csv"
    path.write_text(out.getvalue())
    table = build_ratings_table(
        RatingRecord(
            str(row.item), row.rater, int(bool(row.verdict)), row.confidence, row.truth, row.source_name, str(row.pair)
        )
        for row in iter_rating_rows(Study.objects.get())
        if row.is_judged
    )
    expected = [row.to_dict() for row in summary.compute_summary(table, resamples=20)]
    assert results(path) == json.loads(json.dumps(expected))
    assert {row["args"].get("source") for row in results(path)} >= {"offline", "offline, subtle error"}
