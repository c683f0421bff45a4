"""The colours of figures, each with its counterpart in dark mode.

A figure is drawn once, in the light colours. static/figures.css replaces each literal in dark mode, so every colour of a figure must be
in `SHADES`. Hues are distinguishable with any colour vision (after Okabe and Ito), and no information is in colour alone.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Shade(NamedTuple):
    """One colour as #rrggbb: on paper and light screens, and in dark mode."""

    light: str
    dark: str


class Tone(NamedTuple):
    """A hue for data: `solid` for lines, outlines and points, `tint` for areas and backgrounds."""

    solid: str
    tint: str


def _mix_colours(first: str, last: str, part: float) -> str:
    """Return the colour `part` (0 to 1) of the way between two."""
    ends = [[int(colour[offset : offset + 2], 16) for offset in (1, 3, 5)] for colour in (first, last)]
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*ends, strict=True))


def _make_ramp(light: tuple[str, str], dark: tuple[str, str], steps: int) -> list[Shade]:
    parts = [step / (steps - 1) for step in range(steps)]
    return [Shade(_mix_colours(*light, part), _mix_colours(*dark, part)) for part in parts]


# The background: the card of a page, a sheet of paper.
PAPER = Shade("#ffffff", "#19202a")
INK, MUTED = Shade("#16202c", "#e9eef4"), Shade("#596676", "#a1aebd")
AXIS, GRID, QUIET = Shade("#7d8997", "#8593a5"), Shade("#dbe1e8", "#323d4c"), Shade("#eef1f4", "#242d39")

# solid, then tint
_TONES: Mapping[str, tuple[Shade, Shade]] = {
    "blue": (Shade("#0b5cad", "#6aaef2"), Shade("#cfe0f3", "#22405f")),
    "orange": (Shade("#b5480b", "#f0975a"), Shade("#f6dcc9", "#4d2f1a")),
    "green": (Shade("#00745c", "#4cc3a5"), Shade("#cdeae2", "#17433a")),
    "purple": (Shade("#8a3a86", "#d492d0"), Shade("#eed8ec", "#472846")),
    "olive": (Shade("#6b5900", "#cdb44c"), Shade("#ece3bd", "#423912")),
    "slate": (Shade("#3d4653", "#aab6c4"), Shade("#dfe3e8", "#364252")),
}
TONES: Mapping[str, Tone] = {name: Tone(solid.light, tint.light) for name, (solid, tint) in _TONES.items()}

# One ink is readable on every step, from the palest to the strongest.
_BLUES = _make_ramp(("#edf4fb", "#78aee4"), ("#1f2a38", "#2f6299"), 9)
_ORANGES = _make_ramp(("#fae6d6", "#e8965c"), ("#38281f", "#8f4a17"), 9)
BLUES = tuple(shade.light for shade in _BLUES)
ORANGES = tuple(shade.light for shade in _ORANGES)

SHADES: tuple[Shade, ...] = (
    *(PAPER, INK, MUTED, AXIS, GRID, QUIET),
    *(shade for pair in _TONES.values() for shade in pair),
    *_BLUES,
    *_ORANGES,
)


def colour_step(colours: tuple[str, ...], part: float) -> str:
    """Return the colour for `part` of the ramp (0 to 1, clipped)."""
    # Rounded to the nearest step, so that the style sheet knows every colour.
    return colours[round(min(1.0, max(0.0, part)) * (len(colours) - 1))]


def build_css() -> str:
    """Return the rules for dark mode, for static/figures.css; print keeps the light colours."""
    lines = ["@media screen and (prefers-color-scheme: dark) {"]
    for light, dark in SHADES:
        lines += [f'  .figure [{what}="{light}"] {{ {what}: {dark}; }}' for what in ("fill", "stroke")]
    return "\n".join([*lines, "}", ""])
