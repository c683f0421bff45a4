"""Tests of the figures: drawn from stored tables, in three sizes with the same content, each with a summary in words."""

import re
from collections import Counter
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import altair
import jsonschema
import numpy as np
import pytest

from ratings.results.figures import confidence, forest, registry, render, tables, theme
from ratings.results.figures.grids import MAX_TITLES
from tests.ratings.results.figures import documents

SVG = "{http://www.w3.org/2000/svg}"
NAMES = [
    "rates",
    "confidence",
    "violins",
    "roc",
    "drift",
    "misses",
    "detection_by_size",
    "agreement",
    "localisation",
    "contrasts",
    "rates_by_experiment",
    "rates_by_action",
    "rates_by_error_kind",
    "matrix",
    "human_model",
    "agreement_matrix",
    "conditional_matrix",
    "fractions",
    "pass_at_k",
    "failures",
    "cost",
    "precision",
]
WIDTHS = {"wide": 700, "narrow": 340, "print": 486}


def get_document(name: str) -> documents.Document:
    return documents.study() if "study" in registry.FIGURES[name].kinds else documents.benchmark()


def list_texts(root: ElementTree.Element) -> list[str]:
    """Return the lines of all texts."""
    return [line.text or "" for text in root.iter(f"{SVG}text") for line in (list(text) or [text])]


def test_figures_are_complete_and_drawn_in_both_screen_sizes(drawn):
    assert sorted(registry.FIGURES) == sorted(NAMES)
    assert {key for key in drawn if key[1] != "print"} == {
        (name, size) for name in NAMES for size in ("wide", "narrow")
    }


@pytest.mark.parametrize("name", NAMES)
def test_figure_specification_is_valid(name):
    figure = registry.FIGURES[name]
    altair.Chart.from_dict(figure.drawing.draw(get_document(name), theme.FIGURE_SIZES["narrow"]), validate=True)


def test_figure_specification_with_a_wrong_property_is_rejected():
    spec = registry.FIGURES["rates"].drawing.draw(get_document("rates"), theme.FIGURE_SIZES["narrow"])
    spec["vconcat"][0]["layer"][0]["mark"]["colour"] = "red"
    with pytest.raises(jsonschema.ValidationError):
        altair.Chart.from_dict(spec, validate=True)


@pytest.mark.parametrize("profile", WIDTHS)
def test_figure_is_as_wide_as_its_size_requires(trees, profile):
    some = [(name, root) for (name, size), root in trees.items() if size == profile]
    assert len(some) >= 6
    for name, root in some:
        width = float(root.get("width", "0"))
        assert WIDTHS[profile] - 1 <= width <= WIDTHS[profile] * 1.05, name


@pytest.mark.parametrize("name", NAMES)
def test_figure_sizes_have_the_same_content(trees, name):
    sizes = [trees[name, profile] for profile in WIDTHS if (name, profile) in trees]
    said = [sorted(title.text or "" for title in root.iter(f"{SVG}title")) for root in sizes]
    assert len(said) >= 2 and said[0] and all(one == said[0] for one in said)


@pytest.mark.parametrize("name", NAMES)
def test_figure_summary_is_one_sentence_with_numbers(name):
    said = registry.FIGURES[name].describe(get_document(name))
    assert re.search(r"\d", said) and said.endswith(".") and "\n" not in said
    assert "None" not in said and "nan" not in said


def test_rates_summary_lists_every_source_with_its_interval():
    said = registry.FIGURES["rates"].describe(documents.study())
    assert said == (
        "Rated plausible: Claude 4 Sonnet 87% (156 of 180, 80% to 91%); GPT-5 94% (169 of 180, 88% to 97%); "
        "GPT-5, obvious error 3% (2 of 60, 1% to 12%); GPT-5, subtle error 79% (71 of 90, 68% to 87%)."
    )


def test_rates_figure_draws_intervals_to_their_limits():
    spec = registry.FIGURES["rates"].build_spec(documents.study(), "wide")
    root = ElementTree.fromstring(render.render_svg(spec))
    # The plot is as wide as the axis from 0% to 100%.
    plot = spec["vconcat"][0]["width"]
    lines = [line for line in root.iter(f"{SVG}line") if line.get("stroke") == "#16202c"]
    found = [(float(re.findall(r"[\d.]+", line.get("transform", ""))[0]), float(line.get("x2", "0"))) for line in lines]
    wanted = [(low * plot, (high - low) * plot) for _, _, low, high in documents.RATES]
    assert np.allclose(found, wanted, atol=0.02)


def test_forest_plot_labels_an_undefined_value_and_draws_no_mark():
    rows = [forest.ForestRow("none", None, None, None, "undefined", "why")]
    chart = forest.draw_forest(
        [forest.ForestSection("", rows)], forest.make_share_scale("x"), theme.FIGURE_SIZES["wide"]
    )
    root = ElementTree.fromstring(render.render_svg(theme.finish_chart(chart, theme.FIGURE_SIZES["wide"], "", "", "")))
    assert "undefined" in list_texts(root)
    assert not list(root.iter(f"{SVG}title"))


def test_forest_plot_counts_the_rows_beyond_its_limit():
    rows = [forest.ForestRow(f"row {place}", 0.5, 0.4, 0.6, "50%", "t") for place in range(forest.MAX_ROWS + 3)]
    chart = forest.draw_forest(
        [forest.ForestSection("", rows)], forest.make_share_scale("x"), theme.FIGURE_SIZES["narrow"]
    )
    root = ElementTree.fromstring(
        render.render_svg(theme.finish_chart(chart, theme.FIGURE_SIZES["narrow"], "", "", ""))
    )
    assert "3 more rows are in the table." in list_texts(root)
    assert f"row {forest.MAX_ROWS - 1}" in list_texts(root) and f"row {forest.MAX_ROWS}" not in list_texts(root)


def test_forest_plot_divides_its_limited_rows_among_its_sections() -> None:
    assert forest.share_rows([3, 100, 20, 50], 60) == [3, 19, 19, 19]
    assert forest.share_rows([3, 4], 60) == [3, 4] and forest.share_rows([], 60) == []
    assert sum(forest.share_rows([61, 1, 200, 7], 60)) == 60


def make_contrast_row(
    family: str, first: str, quantity: str = "rate", p_holm: float | None = 0.5, low: float | None = -0.1
) -> list:
    high = None if low is None else 0.3
    return [family, first, "the others", quantity, 0.6, 0.5, 0.1, low, high, 0.04, p_holm, 60, 6, 360, 0, 6, "", "", ""]


def test_contrasts_figure_has_rows_of_every_family_and_counts_them() -> None:
    rows = [
        make_contrast_row("experiments", f"E{at}", quantity) for at in range(40) for quantity in ("rate", "sensitivity")
    ]
    rows += [
        make_contrast_row("raters", f"R{at}", quantity) for at in range(6) for quantity in ("rate", "correct", "d'")
    ]
    rows += [make_contrast_row("sources", f"S{at}", low=None if at else -0.2) for at in range(2)]
    figure = registry.FIGURES["contrasts"]
    document = {"tables": {"contrasts": documents.table("contrasts", rows)}}
    said = list_texts(ElementTree.fromstring(render.render_svg(figure.build_spec(document, "wide"))))
    assert {"Experiments: 47 of 80", "Raters: 12 of 18", "Sources: 1 of 2"} <= set(said)
    # All rates are drawn before any sensitivity.
    assert "E39 less the others, rate" in said and "E6 less the others, sensitivity" in said
    assert "E7 less the others, sensitivity" not in said
    assert "60 of 100 contrasts are shown; the table and the CSV contain all." in said
    summary = figure.describe(document)
    assert [summary.index(f"{name}0 less the others") for name in "ERS"] == sorted(
        summary.index(f"{name}0 less the others") for name in "ERS"
    )
    few = {"tables": {"contrasts": documents.table("contrasts", rows[:2])}}
    assert "Experiments" in list_texts(ElementTree.fromstring(render.render_svg(figure.build_spec(few, "wide"))))


def test_contrasts_figure_colours_contrasts_by_adjusted_p() -> None:
    rows = [make_contrast_row("raters", "R1", p_holm=0.04), make_contrast_row("raters", "R2", p_holm=0.06, low=0.01)]
    rows += [make_contrast_row("raters", "R3", p_holm=None)]
    figure = registry.FIGURES["contrasts"]
    spec = figure.build_spec({"tables": {"contrasts": documents.table("contrasts", rows)}}, "wide")
    said = list_texts(ElementTree.fromstring(render.render_svg(spec)))
    assert "+0.10 (−0.10 to +0.30) *" in said and "+0.10 (+0.01 to +0.30)" in said
    solid = [row["solid"] for layer in spec["vconcat"][0]["layer"] for row in layer["data"]["values"] if "solid" in row]
    assert solid[:3] == [theme.TONES[tone].solid for tone in ("orange", "blue", "blue")]
    assert "Holm's p" in figure.note and "d' are" in figure.note


@pytest.mark.parametrize("name", NAMES)
def test_figure_whose_table_has_no_rows_is_not_drawn(name):
    empty = {"tables": {table: documents.table(table, []) for table in documents.COLUMNS}}
    assert not registry.FIGURES[name].has_data(empty)
    assert not registry.FIGURES[name].has_data({"tables": {}})


def test_figure_whose_table_has_only_missing_values_is_not_drawn():
    silent = documents.study()["tables"]
    drift = [[1, 10, 8, None, None, None, 0.002]]
    human = [["checker", "checker", *[None] * 9, 4, 6, 24, "no items in common"]]
    silent |= {"drift": documents.table("drift", drift), "human_model": documents.table("human_model", human)}
    silent |= {"confidence": documents.table("confidence", [["GPT-5", 1, 5, 0, None]])}
    drawn = [name for name in NAMES if registry.FIGURES[name].has_data({"tables": silent})]
    assert not {"drift", "human_model", "confidence", "violins"} & set(drawn) and "rates" in drawn


def test_agreement_figure_labels_estimates_from_few_shared_items():
    document = documents.study()
    table = document["tables"]["agreement"]
    reason = "few items: no pair shares 20 items, the most is 12; no interval is reliable"
    columns = [column["name"] for column in table["columns"]]
    low, high, why = (columns.index(name) for name in ("low", "high", "reason"))
    for row in table["rows"]:
        row[low] = row[high] = None
        row[why] = reason
    figure = registry.FIGURES["agreement"]
    assert "(few items)" in "".join(
        ElementTree.fromstring(render.render_svg(figure.build_spec(document, "wide"))).itertext()
    )
    assert "(few items)" not in render.render_svg(figure.build_spec(documents.study(), "wide"))


def test_cost_figure_is_not_drawn_if_nothing_has_a_cost():
    free = {
        "tables": {
            "cost": documents.table("cost", [["offline", 90, 0, 0, 0.0, 0.0], ["GPT-5", 4, None, None, None, None]])
        }
    }
    assert not registry.FIGURES["cost"].has_data(free)
    assert registry.FIGURES["cost"].has_data(documents.benchmark())


def test_figures_are_drawn_in_a_fixed_order_each_in_both_screen_sizes():
    made = list(islice(render.render_all(documents.study()), 4))
    assert [(one.name, one.profile) for one in made] == [
        ("rates", "wide"), ("rates", "narrow"), ("confidence", "wide"), ("confidence", "narrow"),
    ]  # fmt: skip
    assert all(one.svg.startswith("<svg ") and one.summary for one in made)


def test_roc_curve_rises_in_hits_before_it_moves_right_in_false_alarms():
    # Three thresholds without a false alarm, then two at 3 in 10: at each, the line rises before it continues to the right.
    shares = [(0, 0), (0, 0.2), (0, 0.5), (0, 0.5), (0.3, 0.5), (0.3, 0.8), (1, 1)]
    rows = [
        ["GPT-5, subtle error", threshold, false_alarms, hits, 10, 10]
        for threshold, (false_alarms, hits) in zip((None, -5, -4, -3, 1, 2, 5), shares, strict=True)
    ]
    spec = registry.FIGURES["roc"].build_spec({"tables": {"roc": documents.table("roc", rows)}}, "wide")
    root = ElementTree.fromstring(render.render_svg(spec))
    (line,) = (
        path for path in root.iter(f"{SVG}path") if path.get("fill") is None and not path.get("stroke-dasharray")
    )
    drawn = [tuple(map(float, place.split(","))) for place in re.split("[ML]", line.get("d", ""))[1:]]
    # The last point is (1, 1): at the right edge, and at 0 from the top.
    side = drawn[-1][0]
    assert np.allclose(drawn, [(x * side, (1 - y) * side) for x, y in shares])


def test_precision_summary_states_a_half_width_of_zero():
    rows = [["rate", "", raters, 40, half, raters == 6, ""] for raters, half in ((6, 0.1), (8, 0.0), (12, None))]
    said = registry.FIGURES["precision"].describe({"tables": {"precision": documents.table("precision", rows)}})
    assert said == "Half-widths: Rate ±0.10 now, 0.00 with 8 raters and 40 items."


def test_precision_figure_gives_the_reason_for_an_unknown_half_width() -> None:
    rows = [
        ["rate", "", 6, 40, 0.1, True, "now ±0.10"],
        ["kappa", "", 2, 40, None, True, "an interval for new raters needs at least three raters"],
    ]
    document = {"tables": {"precision": documents.table("precision", rows)}}
    said = registry.FIGURES["precision"].describe(document)
    assert said == (
        "Half-widths: Rate ±0.10 now, 0.10 with 6 raters and 40 items; "
        "Kappa not estimable yet (an interval for new raters needs at least three raters)."
    )
    drawn = list_texts(
        ElementTree.fromstring(render.render_svg(registry.FIGURES["precision"].build_spec(document, "wide")))
    )
    assert "not estimable yet" in drawn and not any("undefined" in one for one in drawn)


@pytest.mark.parametrize(
    ("together", "each", "name"),
    [
        ("people", "person", "all raters"),
        ("simulated", "simulated", "all raters (simulated)"),
        ("people and simulated", "imported", "all raters (people and simulated)"),
    ],
)
def test_misses_figure_names_people_as_a_group_and_each_model_but_no_single_person(together, each, name) -> None:
    rows = [
        ["all raters", together, "subtle", "", 3, 6, 0.5, 0.2, 0.8],
        ["R1", each, "subtle", "", 2, 3, 2 / 3, 0.2, 0.9],
        ["M1, gpt", "machine", "subtle", "", 1, 3, 1 / 3, 0.1, 0.8],
    ]
    document = {"tables": {"misses": documents.table("misses", rows)}}
    figure = registry.FIGURES["misses"]
    assert figure.describe(document) == (
        f"Rated as an error: {name}, subtle errors: detected 50% (3 of 6); M1, gpt, subtle errors: detected 33% (1 of 3)."
    )
    assert "R1" not in list_texts(ElementTree.fromstring(render.render_svg(figure.build_spec(document, "wide"))))
    assert "Models: shares of items." in registry.FIGURES["misses"].get_note(document)
    people = {"tables": {"misses": documents.table("misses", rows[:2])}}
    assert "Models" not in registry.FIGURES["misses"].get_note(people)


def test_detection_by_size_joins_only_sizes_above_the_limit() -> None:
    spec = registry.FIGURES["detection_by_size"].build_spec(documents.study(), "wide")
    root = ElementTree.fromstring(render.render_svg(spec))
    # Two curves (all raters and one model) of two sizes each; the other three ranges are points alone.
    lines = [
        path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("fill") is None and "L" in path.get("d", "")
    ]
    assert [line.count("L") for line in lines if "Z" not in line][:2] == [1, 1]
    points = [title.text for title in root.iter(f"{SVG}title")]
    assert len(points) == 10 and not any("R1" in (text or "") for text in points)
    assert "Raters, 20 to 30%: 50% (40% to 60%), 20 of 40" in points
    assert {"below 10%", "no size", "no error"} <= set(list_texts(root))


def test_detection_by_size_is_not_drawn_if_no_error_has_a_size() -> None:
    rows = [["Raters", "people", name, None, None, 1, 2, 0.5, 0.1, 0.9, "planted"] for name in ("no size", "no error")]
    figure = registry.FIGURES["detection_by_size"]
    assert not figure.has_data({"tables": {"detection_by_size": documents.table("detection_by_size", rows)}})


def test_drift_figure_without_reference_labels_shows_only_the_pace() -> None:
    rows = [[1, 5, 10, None, None, None, 30.0], [6, 10, 10, None, None, None, 20.0]]
    paced = {"tables": {"drift": documents.table("drift", rows)}}
    named = registry.FIGURES["drift"]
    assert (named.get_title(paced), "95%" in named.get_note(paced)) == ("Pace by position", False)
    assert "Pace by position" in str(registry.FIGURES["drift"].build_spec(paced, "print"))
    whole = documents.study()
    assert (named.get_title(whole), "95%" in named.get_note(whole)) == (named.title, True)


def test_matrix_figure_notes_that_it_shows_a_sample():
    whole, cut = documents.study(), documents.study()
    cut["tables"]["matrix"]["notes"] = [
        "200 of 5,000 items and 6 of 6 raters are shown; the ratings file has all of them."
    ]
    figure = registry.FIGURES["matrix"]
    assert figure.title == "Ratings by rater and item"
    # Four sources of 20 items, six raters, two of three items each: 13 or 14 per source, 320 ratings in all.
    assert figure.describe(whole).startswith("320 ratings of 80 items by 6 raters")
    assert figure.describe(cut).startswith("A sample of 320 ratings of 80 items by 6 raters")
    note = registry.FIGURES["matrix"].get_note
    assert (
        note(cut) == f"{note(whole)} 200 of 5,000 items and 6 of 6 raters are shown; the ratings file has all of them."
    )


def test_rates_note_explains_published_values_only_if_there_are_any():
    said = "Diamond: the paper's value for the declared model."
    document = documents.study()
    assert said in registry.FIGURES["rates"].get_note(document)
    rows = document["tables"]["rates"]["rows"]
    document["tables"]["rates"]["rows"] = [[*row[:-2], None, row[-1]] for row in rows]
    assert said not in registry.FIGURES["rates"].get_note(document)


def test_violin_density_has_area_1_and_is_reflected_at_the_ends_of_the_scale():
    grid = np.linspace(1, 5, 2001)
    for counts in ({3: 7}, {1: 4}, {5: 2, 1: 1, 2: 8}):
        assert np.trapezoid(confidence.compute_density(counts, grid), grid) == pytest.approx(1, abs=1e-3)
    # One rating of 1, bandwidth 0.4: half of the kernel is folded back onto the other half, so twice the normal density at 1.
    assert confidence.compute_density({1: 1}, np.array([1.0]))[0] == pytest.approx(2 / (0.4 * np.sqrt(2 * np.pi)))
    assert not confidence.compute_density({}, grid).any()


def test_violins_show_n_and_median_and_a_dot_per_rating_below_thirty_ratings():
    figure, document = registry.FIGURES["violins"], documents.study()
    root = ElementTree.fromstring(render.render_svg(figure.build_spec(document, "wide")))
    note = figure.get_note(document)
    assert f"bandwidth {confidence.BANDWIDTH}," in note and "fewer than 30 ratings: a coloured dot for each" in note
    assert {"n = 156", "n = 2", "median 4"} <= set(list_texts(root))
    # Of the eight halves, four have 58 ratings or more and are one density each; the others have 24, 11, 2 and 19 ratings.
    titles = Counter(title.text for title in root.iter(f"{SVG}title"))
    assert sum(titles.values()) == 4 + 24 + 11 + 2 + 19
    # "Not plausible" with confidence 3, below thirty: 7 by Claude, 4 and 8 by GPT-5; the title counts those of one source.
    assert [titles[f"Not plausible, confidence 3: {n} ratings"] for n in (7, 4, 8)] == [7, 4, 8]


def test_violins_without_any_density_have_another_title_and_no_note_on_the_kernel():
    figure, document = registry.FIGURES["violins"], documents.study()
    rows = document["tables"]["spread"]["rows"]
    place = [column["name"] for column in document["tables"]["spread"]["columns"]].index("n")
    few = {**document["tables"]["spread"], "rows": [[*row[:place], 29, *row[place + 1 :]] for row in rows]}
    small = {**document, "tables": {**document["tables"], "spread": few}}
    assert figure.get_title(small) == "Confidence of single ratings" and "kernel" not in figure.get_note(small)
    assert figure.get_title(document) == "Confidence as densities"
    at_limit = {
        **small,
        "tables": {
            **small["tables"],
            "spread": {**few, "rows": [[*row[:place], 30, *row[place + 1 :]] for row in rows]},
        },
    }
    assert "coloured dot" not in figure.get_note(at_limit)


def test_heat_map_uses_one_text_colour_and_leaves_the_diagonal_empty():
    root = ElementTree.fromstring(
        render.render_svg(registry.FIGURES["agreement_matrix"].build_spec(documents.study(), "wide"))
    )
    cells = [text for text in root.iter(f"{SVG}text") if re.fullmatch(r"\d+%", text.text or "")]
    assert len(cells) == 6 and {text.get("fill") for text in cells} == {"#16202c"}
    assert list_texts(root).count("–") == 3


def test_matrix_figure_of_thousands_of_ratings_stays_small():
    rows = [
        [f"R{at}", f"i{item}", "GPT-5", item % 2, item % 5 + 1, item % 3 > 0] for at in range(30) for item in range(150)
    ]
    assert len(rows) > MAX_TITLES
    large = {"tables": {"matrix": documents.table("matrix", rows)}}
    svg = render.render_svg(registry.FIGURES["matrix"].build_spec(large, "wide"))
    assert len(svg) < 200_000 and "<title>" not in svg


def test_figure_without_a_drawing_is_an_error_that_names_it() -> None:
    assert set(render.DRAWINGS) == set(NAMES)  # loaded when the module is imported
    undrawn = registry.FIGURES["rates"]._replace(name="new", drawn_by="estimates.NEW")
    with pytest.raises(ImportError, match=r"the figure 'new' is declared, but estimates.py has no drawing NEW"):
        _ = undrawn.drawing


def test_figure_summary_uses_the_words_of_an_evidence_study():
    evidence = documents.study() | {"subject": {"kind": "evidence_sufficiency"}}
    assert registry.FIGURES["rates"].describe(evidence).startswith("Rated sufficient: ")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-0.33, 0.2, [-0.4, -0.2, 0, 0.2]),
        (0, 37, [0, 10, 20, 30, 40]),
        (0, 0.09, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
    ],
)
def test_axis_ticks_are_round_numbers_that_cover_all_values(low, high, ticks):
    scale = forest.make_scale("x", [forest.ForestRow("a", low, low, high, "", "")], floor=low, ceiling=high)
    assert list(scale.ticks) == ticks and (scale.low, scale.high) == (ticks[0], ticks[-1])


def test_long_labels_are_wrapped_between_words_and_cut_with_an_ellipsis():
    # 0.61 em per letter: five letters and a space of 0.36 em take 3.41 em of ten pixels.
    assert tables.wrap_text("abcde fghij", 40, 10) == ["abcde", "fghij"]
    assert tables.wrap_text("abcde", 400, 10) == ["abcde"]
    cut = tables.wrap_text("word " * 50, 100, 10)
    assert len(cut) == 2 and cut[1].endswith("…")
    assert tables.wrap_text("x" * 50, 62, 10)[0] == "x" * 10


def test_label_text_replaces_invisible_characters():
    assert tables.clean_label("a\x00b\u202ec\ud800d") == "a�b�c�d"
    assert tables.clean_label(" two\n lines ") == "two lines"


def test_vega_lite_version_matches_the_schema_of_altair():
    assert altair.SCHEMA_VERSION.startswith(f"v{render.VL_VERSION}")


def test_forest_plot_baseline_does_not_cross_the_headings() -> None:
    row = forest.ForestRow("a", 0.5, None, None, "50%", "")
    sections = [forest.ForestSection("first", [row, row]), forest.ForestSection("second", [row])]
    chart = forest.draw_forest(sections, forest.make_share_scale("x"), theme.FIGURE_SIZES["wide"])
    views = chart["vconcat"]
    assert [view["title"]["text"] for view in views] == [["first"], ["second"]]
    # Each section is a view with its heading above it, and the baseline is as long as the view is high.
    for view in views:
        (baseline,) = (layer for layer in view["layer"] if layer["mark"].get("color") == theme.AXIS.light)
        assert "y" not in baseline["encoding"]


def test_agreement_figure_counts_coefficients_without_a_value() -> None:
    document = documents.study()
    every = document["tables"]["agreement"]
    value = [one["name"] for one in every["columns"]].index("value")
    before = sum(row[value] is None for row in every["rows"])
    known = next(row for row in every["rows"] if row[value] is not None)
    known[value] = None
    spec = str(registry.FIGURES["agreement"].build_spec(document, "wide"))
    assert f"{before + 1} undefined" in spec
    for row in every["rows"]:
        row[value] = None
    assert not registry.FIGURES["agreement"].has_data(document)


def test_every_figure_colour_has_a_dark_mode_rule(drawn):
    rules = (Path(__file__).parents[4] / "static" / "figures.css").read_text()
    dark = {shade.light: shade.dark for shade in theme.SHADES}
    used = {
        (attribute, colour)
        for svg in drawn.values()
        for attribute, colour in re.findall(r' (fill|stroke)="([^"]+)"', svg)
        if colour != "none"
    }
    assert len(used) > 20
    for attribute, colour in used:
        assert f'[{attribute}="{colour}"] {{ {attribute}: {dark[colour]}; }}' in rules
