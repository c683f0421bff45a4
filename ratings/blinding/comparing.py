"""An item row by row: what its original says there, what it says itself, where the error was planted, who ticked it.

Reads blinded payloads alone (see `blinding`), so it serves simulated and imported items alike. No Django.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ratings.blinding.lanes import Lane, Payload, apart, facts, lanes
from ratings.blinding.marking import MISSING, REJECTED, is_certain, seen_key, step_key

_PARTS = {"name": "name", "place": "where it is kept", "availability": "availability", "gone": "nothing is left of it"}
HANDED_BACK, USED_UP = "handed back", "not handed back"
Values = dict[str, tuple[str, str]]  # a lane's rows afterwards: key within the lane -> label, value


class Line(NamedTuple):
    """One row. `original` is None where nothing is compared; `planted` where the error stands; `ticked` by so many raters."""

    where: str
    label: str
    key: str
    before: str
    shown: str
    original: str | None
    planted: bool
    ticked: int

    @property
    def differs(self) -> bool:
        return self.original is not None and self.original != self.shown

    @property
    def open(self) -> bool:
        """Whether it is worth seeing at once: it differs from the original, holds the error, or somebody ticked it."""
        return self.differs or self.planted or self.ticked > 0


def compare(
    payload: Payload,
    original: Payload | None = None,
    target: Collection[str] = (),
    ticks: Mapping[str, int] | None = None,
) -> list[Line]:
    """Every row of an item in the order of its page, then what was ticked or planted where no single row is."""
    ticks = ticks or {}
    rows = _steps(payload) if payload["kind"] == "evidence" else _transition(payload, original)
    lines = [row._replace(planted=_planted(row, target), ticked=ticks.get(row.key, 0)) for row in rows]
    known = {line.key for line in lines}
    others = [
        key for key in dict.fromkeys([*ticks, *target]) if key not in known and (ticks.get(key) or key == MISSING)
    ]
    rest = [Line("", mark_name(key), key, "", "", None, key in target, ticks.get(key, 0)) for key in others]
    return lines + rest


def mark_name(key: str) -> str:
    """A mark's key in words: "A:Volume" is "A: Volume", "seen/1" is "observation 1"."""
    if key in (MISSING, REJECTED):
        return {MISSING: "something is missing", REJECTED: "the reason for the rejection"}[key]
    ref, _, rest = key.partition("/")
    if ref in ("seen", "step") and rest:
        return f"{'observation' if ref == 'seen' else 'step'} {rest}"
    if rest and ":" not in ref:
        return f"{ref.removesuffix('+')}: {_PARTS.get(rest, 'its row of the table')}"
    ref, _, rest = key.partition(":")
    return f"{ref[:-1]} and those like it: {rest}" if ref.endswith("+") else f"{ref}: {rest}"


def _planted(row: Line, target: Collection[str]) -> bool:
    """A row the original alone has holds the error where the error is that something is missing."""
    return row.key in target or (MISSING in target and bool(row.original) and not row.shown)


def _steps(payload: Payload) -> Iterator[Line]:
    for step in payload["steps"]:
        yield _line("", f"Step {step['number']}, {step['action']['name']}", step_key(step["number"]), "", "", None)


def _transition(payload: Payload, original: Payload | None) -> Iterator[Line]:
    known = original is not None and not (payload["rejected"] or original["rejected"])
    if payload["rejected"] or (original and original["rejected"]):
        first = None if original is None else original["rejected"] or "accepted"
        yield _line("", "Action rejected", REJECTED, "", payload["rejected"] or "accepted", first)
    found = _lanes(payload)
    partners = _partners(found, _lanes(original)) if original is not None else {}
    for lane in found:
        yield from _lane(lane, _after(partners.get(lane.ref)) if known else None)
    met = {other.ref for other in partners.values()}
    for lane in _lanes(original) if known and original else []:
        if lane.after is not None and lane.ref not in met:
            yield from (
                _line(lane.name, label, f"-{lane.ref}{key}", "", "", v) for key, (label, v) in _after(lane).items()
            )
    yield from _observations(payload["observations"], original["observations"] if original else None)


def _lanes(payload: Payload) -> list[Lane]:
    return lanes(payload) if is_certain(payload) else apart(payload)


def _partners(found: Sequence[Lane], others: Sequence[Lane]) -> dict[str, Lane]:
    """The original's lane for each: of what was there before by its letter, of what is new by content, name, order."""
    before = {lane.ref: lane for lane in others if lane.before}
    partners = {lane.ref: before[lane.ref] for lane in found if lane.before and lane.ref in before}
    new = [lane for lane in found if not lane.before]
    free = [lane for lane in others if not lane.before]
    for alike in (_same_content, _same_name, _any):
        for lane in [lane for lane in new if lane.ref not in partners]:
            if (at := next((at for at, other in enumerate(free) if alike(lane, other)), None)) is not None:
                partners[lane.ref] = free.pop(at)
    return partners


def _same_content(one: Lane, other: Lane) -> bool:
    return facts(one.after) == facts(other.after)


def _same_name(one: Lane, other: Lane) -> bool:
    return one.name == other.name


def _any(one: Lane, other: Lane) -> bool:
    return True


def _after(lane: Lane | None) -> Values:
    """What the rows of a lane say afterwards; nothing where nothing was handed back."""
    if lane is None or lane.gone:
        return {}
    return {row.key: (row.label, row.after) for row in lane.rows if row.after}


def _lane(lane: Lane, original: Values | None) -> Iterator[Line]:
    """Rows of one material; `original` is None where nothing is compared."""
    name = f"{lane.name} ({lane.ref})"
    own = {row.key for row in lane.rows}
    for row in lane.rows:
        first = None if original is None else original.get(row.key, ("", ""))[1]
        before = row.before if lane.before else ""
        yield _line(name, row.label, f"{lane.ref}{row.key}", before, "" if lane.gone else row.after, first)
    for key, (label, value) in (original or {}).items():
        if key not in own:
            yield _line(name, label, f"{lane.ref}{key}", "", "", value)
    if lane.gone:
        first = None if original is None else HANDED_BACK if original else USED_UP
        yield _line(name, "Afterwards", f"{lane.ref}/gone", "", USED_UP, first)


def _observations(seen: Sequence[Payload], original: Sequence[Payload] | None) -> Iterator[Line]:
    """Each observation beside the same one of the original, else beside the next that has no other partner."""
    told, others = [_told(one) for one in seen], [_told(one) for one in original or ()]
    free = list(others)
    same = [free.pop(free.index(text)) if text in free else None for text in told]
    for number, (text, first) in enumerate(zip(told, same, strict=True), 1):
        beside = first if first is not None else free.pop(0) if free else ""
        yield _line("", f"Observation {number}", seen_key(number), "", text, None if original is None else beside)
    for number, text in enumerate(free, len(told) + 1):
        yield _line("", f"Observation {number}", f"-{seen_key(number)}", "", "", text)


def _told(observation: Payload) -> str:
    return " ".join(filter(None, (observation["type"], observation["description"], observation["value"])))


def _line(where: str, label: str, key: str, before: str, shown: str, original: str | None) -> Line:
    return Line(where, label, key, before, shown, original, False, 0)
