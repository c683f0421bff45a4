"""Compare an item row by row with its original: values, the planted error, and how many raters marked a row.

It reads blinded payloads only, so it works for simulated and imported items alike.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ratings.blinding.material_rows import (
    MISSING,
    REJECTED,
    MaterialRow,
    Payload,
    align_materials,
    has_known_lineage,
    list_separately,
    rows_by_key,
    step_key,
)
from simulation.lab.notation import write_text, write_value
from simulation.lab.observation_tables import observation_key

_PART_NAMES = {
    "name": "name",
    "availability": "availability",
    "place": "where it is kept",
    "gone": "nothing is left of it",
}
_KEY_NAMES = {MISSING: "something is missing", REJECTED: "the reason for the rejection"}
HANDED_BACK, USED_UP = "handed back", "not handed back"
Values = dict[str, tuple[str, str]]  # a lane's rows afterwards: key within the lane -> label, value


class DiffLine(NamedTuple):
    """One row of the comparison."""

    material: str
    label: str
    key: str
    before: str
    shown: str
    original: str | None  # None: nothing is compared
    planted: bool = False  # the row contains the planted error
    ticked: int = 0  # how many raters marked it

    @property
    def differs(self) -> bool:
        return self.original is not None and self.original != self.shown

    @property
    def is_notable(self) -> bool:
        """Whether the row is shown unfolded: it differs from the original, contains the error, or somebody marked it."""
        return self.differs or self.planted or self.ticked > 0


def compare_rows(
    payload: Payload,
    original: Payload | None = None,
    target: Collection[str] = (),
    ticks: Mapping[str, int] | None = None,
) -> list[DiffLine]:
    """Return every row of an item in the order of its page, then marks and errors that belong to no single row."""
    ticks = ticks or {}
    lines = []
    for row in (
        _list_step_lines(payload) if payload["kind"] == "evidence" else _list_transition_lines(payload, original)
    ):
        # Errors and marks are added last, so that the rows themselves do not depend on them.
        is_planted = row.key in target or (MISSING in target and bool(row.original) and not row.shown)
        lines.append(row._replace(planted=is_planted, ticked=ticks.get(row.key, 0)))
    known = {line.key for line in lines}
    for key in dict.fromkeys([*ticks, *target]):
        # Marks under keys of another layout still appear, and an omission always does.
        if key not in known and (ticks.get(key) or key == MISSING):
            lines.append(DiffLine("", format_mark_key(key), key, "", "", None, key in target, ticks.get(key, 0)))
    return lines


def format_mark_key(key: str) -> str:
    """Return the key of a mark as text: "A:Volume" becomes "A: Volume", "seen/1" becomes "observation 1"."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    ref, _, rest = key.partition("/")
    if ref in ("seen", "step") and rest:
        return f"{'observation' if ref == 'seen' else 'step'} {rest}"
    if rest and ":" not in ref:
        return f"{ref.removesuffix('+')}: {_PART_NAMES.get(rest, 'its row of the table')}"
    ref, _, rest = key.partition(":")
    return f"{ref[:-1]} and those like it: {rest}" if ref.endswith("+") else f"{ref}: {rest}"


def _list_step_lines(payload: Payload) -> Iterator[DiffLine]:
    for step in payload["steps"]:
        yield DiffLine("", f"Step {step['number']}, {step['action']['name']}", step_key(step["number"]), "", "", None)


def _list_transition_lines(payload: Payload, original: Payload | None) -> Iterator[DiffLine]:
    # After a rejection there is nothing to compare row by row: one of the two has no outcome.
    is_comparable = original is not None and not (payload["rejected"] or original["rejected"])
    if payload["rejected"] or (original and original["rejected"]):
        original_text = None if original is None else original["rejected"] or "accepted"
        yield DiffLine("", "Action rejected", REJECTED, "", payload["rejected"] or "accepted", original_text)
    materials = _list_materials(payload)
    partners = _pair_with_original(materials, _list_materials(original)) if original is not None else {}
    for lane in materials:
        yield from _list_material_lines(lane, _values_after(partners.get(lane.ref)) if is_comparable else None)
    paired_refs = {other.ref for other in partners.values()}
    for lane in _list_materials(original) if is_comparable and original else []:
        # Rows that only the original has: without them an omitted material would be invisible.
        if lane.after is not None and lane.ref not in paired_refs:
            for key, (label, value) in _values_after(lane).items():
                yield DiffLine(lane.name, label, f"-{lane.ref}{key}", "", "", value)
    yield from _list_observation_lines(payload["observations"], original["observations"] if original else None)


def _list_materials(payload: Payload) -> list[MaterialRow]:
    return align_materials(payload) if has_known_lineage(payload) else list_separately(payload)


def _pair_with_original(materials: Sequence[MaterialRow], others: Sequence[MaterialRow]) -> dict[str, MaterialRow]:
    """Return the matching material of the original, by letter. New ones are matched by content, then name, then order."""
    before = {lane.ref: lane for lane in others if lane.before}
    # Letters are reliable for materials before the action, since they come from the inputs of the same pair.
    partners = {lane.ref: before[lane.ref] for lane in materials if lane.before and lane.ref in before}
    new_materials = [lane for lane in materials if not lane.before]
    unpaired = [lane for lane in others if not lane.before]
    features: tuple[Callable[[MaterialRow], object], ...] = (
        lambda lane: rows_by_key(lane.after),
        lambda lane: lane.name,
        lambda lane: None,
    )
    # From strict to loose: a weak match must not take the partner of a strong one.
    for get_feature in features:
        for lane in [lane for lane in new_materials if lane.ref not in partners]:
            matches = (other for other in unpaired if get_feature(lane) == get_feature(other))
            if (match := next(matches, None)) is not None:
                partners[lane.ref] = match
                unpaired = [other for other in unpaired if other is not match]
    return partners


def _values_after(lane: MaterialRow | None) -> Values:
    """Return the values of a material after the action; none if it was not returned."""
    if lane is None or lane.gone:
        return {}
    return {row.key: (row.label, row.after) for row in lane.rows if row.after}


def _list_material_lines(lane: MaterialRow, original: Values | None) -> Iterator[DiffLine]:
    """Yield the rows of one material; `original` is None if nothing is compared."""
    name = f"{lane.name} ({lane.ref})"
    own_keys = {row.key for row in lane.rows}
    for row in lane.rows:
        original_value = None if original is None else original.get(row.key, ("", ""))[1]
        before, shown = row.before if lane.before else "", "" if lane.gone else row.after
        yield DiffLine(name, row.label, f"{lane.ref}{row.key}", before, shown, original_value)
    for key, (label, value) in (original or {}).items():
        # A property that the twin left out has a row with an empty value.
        if key not in own_keys:
            yield DiffLine(name, label, f"{lane.ref}{key}", "", "", value)
    if lane.gone:
        original_value = None if original is None else HANDED_BACK if original else USED_UP
        yield DiffLine(name, "Afterwards", f"{lane.ref}/gone", "", USED_UP, original_value)


def _list_observation_lines(observations: Sequence[Payload], original: Sequence[Payload] | None) -> Iterator[DiffLine]:
    """Yield each observation beside the identical one of the original, else beside the original's next unpaired one."""
    texts, unpaired = (
        [
            " ".join(filter(None, (one["type"], write_text(one["description"]), write_value(one["value"]))))
            for one in side
        ]
        for side in (observations, original or ())
    )
    # Identical texts are paired first, so that one added observation does not shift all others.
    identical = [unpaired.pop(unpaired.index(text)) if text in unpaired else None for text in texts]
    for number, (text, match) in enumerate(zip(texts, identical, strict=True), 1):
        original_text = match if match is not None else unpaired.pop(0) if unpaired else ""
        compared = None if original is None else original_text
        yield DiffLine("", f"Observation {number}", observation_key(number), "", text, compared)
    # A minus sign marks rows that exist in the original only; raters cannot mark them, so no key collides.
    for number, text in enumerate(unpaired, len(texts) + 1):
        yield DiffLine("", f"Observation {number}", f"-{observation_key(number)}", "", "", text)
