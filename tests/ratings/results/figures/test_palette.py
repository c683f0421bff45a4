"""The colours of figures: told apart from what is behind them, in light and in dark, whoever looks."""

from pathlib import Path

import pytest

from ratings.results.figures import palette

CSS = Path(__file__).parents[4] / "static" / "figures.css"
SIDES = (0, 1)
DARK = {shade.light: shade.dark for shade in palette.SHADES}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_letters_have_a_contrast_of_four_and_a_half_on_paper_on_every_tint_and_on_every_step(side):
    behind = [palette.PAPER[side], palette.QUIET[side]]
    tints = [tone.tint for tone in palette.TONES.values()] + [*palette.BLUES, *palette.ORANGES]
    behind += [DARK[tint] if side else tint for tint in tints]
    assert [ground for ground in behind if contrast(palette.INK[side], ground) < 4.5] == []
    assert contrast(palette.MUTED[side], palette.PAPER[side]) >= 4.5
    assert contrast(palette.MUTED[side], palette.QUIET[side]) >= 4.5


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_lines_points_outlines_and_axes_have_a_contrast_of_three_on_paper(side):
    graphics = [tone.solid for tone in palette.TONES.values()]
    found = [palette.AXIS[side], *((DARK[solid] if side else solid) for solid in graphics)]
    assert [line for line in found if contrast(line, palette.PAPER[side]) < 3] == []


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_an_outline_has_a_contrast_of_three_with_what_is_inside_it(side):
    for tone in palette.TONES.values():
        solid, tint = (DARK[tone.solid], DARK[tone.tint]) if side else tone
        assert contrast(solid, tint) >= 3, tone


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_the_strongest_step_of_either_verdict_is_seen_on_paper_and_either_ramp_grows(side):
    for ramp in (palette.BLUES, palette.ORANGES):
        steps = [contrast(DARK[colour] if side else colour, palette.PAPER[side]) for colour in ramp]
        assert steps == sorted(steps) and steps[-1] > 2


def simulated(colour: str, matrix: tuple[tuple[float, float, float], ...]) -> tuple[float, ...]:
    linear = [(int(colour[place : place + 2], 16) / 255) ** 2.2 for place in (1, 3, 5)]
    return tuple(sum(part * value for part, value in zip(row, linear, strict=True)) for row in matrix)


# Full protanopia and deuteranopia in linear RGB: Viénot, Brettel and Mollon 1999, Color Research and Application 24, 243-252.
PROTAN = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
DEUTAN = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))


@pytest.mark.parametrize("matrix", [PROTAN, DEUTAN], ids=["protanopia", "deuteranopia"])
def test_the_two_verdicts_differ_for_people_who_do_not_tell_red_from_green(matrix):
    for side in SIDES:
        blue, orange = (
            simulated(DARK[palette.TONES[name].solid] if side else palette.TONES[name].solid, matrix)
            for name in ("blue", "orange")
        )
        assert max(abs(one - other) for one, other in zip(blue, orange, strict=True)) > 0.15


def test_no_two_colours_are_the_same_literal():
    lights = [shade.light for shade in palette.SHADES]
    assert len(set(lights)) == len(lights)


def test_the_style_sheet_holds_the_rules_made_from_the_palette():
    indented = "".join(f"  {line}\n" for line in palette.css().splitlines())
    assert indented in CSS.read_text(), "write palette.css() into static/figures.css"
