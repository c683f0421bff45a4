"""Tests of the figure colours: contrast in light and dark mode, and for people with colour blindness."""

from pathlib import Path

import pytest

from ratings.results.figures import theme

CSS = Path(__file__).parents[4] / "static" / "figures.css"
SIDES = (0, 1)
DARK = {shade.light: shade.dark for shade in theme.SHADES}


def compute_luminance(colour: str) -> float:
    """Return the relative luminance as defined in WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(one: str, other: str) -> float:
    high, low = sorted((compute_luminance(one), compute_luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white_is_21():
    assert compute_contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_text_contrast_is_at_least_4_5_on_every_background(side):
    behind = [theme.PAPER[side], theme.QUIET[side]]
    tints = [tone.tint for tone in theme.TONES.values()] + [*theme.BLUES, *theme.ORANGES]
    behind += [DARK[tint] if side else tint for tint in tints]
    assert [ground for ground in behind if compute_contrast(theme.INK[side], ground) < 4.5] == []
    assert compute_contrast(theme.MUTED[side], theme.PAPER[side]) >= 4.5
    assert compute_contrast(theme.MUTED[side], theme.QUIET[side]) >= 4.5


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_line_contrast_is_at_least_3_on_the_page(side):
    graphics = [tone.solid for tone in theme.TONES.values()]
    found = [theme.AXIS[side], *((DARK[solid] if side else solid) for solid in graphics)]
    assert [line for line in found if compute_contrast(line, theme.PAPER[side]) < 3] == []


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_outline_contrast_with_the_fill_is_at_least_3(side):
    for tone in theme.TONES.values():
        solid, tint = (DARK[tone.solid], DARK[tone.tint]) if side else tone
        assert compute_contrast(solid, tint) >= 3, tone


@pytest.mark.parametrize("side", SIDES, ids=["light", "dark"])
def test_colour_ramp_contrast_increases_and_its_last_step_is_visible(side):
    for ramp in (theme.BLUES, theme.ORANGES):
        steps = [compute_contrast(DARK[colour] if side else colour, theme.PAPER[side]) for colour in ramp]
        assert steps == sorted(steps) and steps[-1] > 2


def simulate_colour_blindness(colour: str, matrix: tuple[tuple[float, float, float], ...]) -> tuple[float, ...]:
    linear = [(int(colour[place : place + 2], 16) / 255) ** 2.2 for place in (1, 3, 5)]
    return tuple(sum(part * value for part, value in zip(row, linear, strict=True)) for row in matrix)


# Full protanopia and deuteranopia in linear RGB: Viénot, Brettel and Mollon 1999, Color Research and Application 24, 243-252.
PROTAN = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))
DEUTAN = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))


@pytest.mark.parametrize("matrix", [PROTAN, DEUTAN], ids=["protanopia", "deuteranopia"])
def test_verdict_colours_differ_with_red_green_colour_blindness(matrix):
    for side in SIDES:
        blue, orange = (
            simulate_colour_blindness(DARK[theme.TONES[name].solid] if side else theme.TONES[name].solid, matrix)
            for name in ("blue", "orange")
        )
        assert max(abs(one - other) for one, other in zip(blue, orange, strict=True)) > 0.15


def test_palette_colours_are_all_different():
    lights = [shade.light for shade in theme.SHADES]
    assert len(set(lights)) == len(lights)


def test_style_sheet_contains_the_rules_generated_from_the_palette():
    indented = "".join(f"  {line}\n" for line in theme.build_css().splitlines())
    assert indented in CSS.read_text(), "write palette.css() into static/figures.css"
