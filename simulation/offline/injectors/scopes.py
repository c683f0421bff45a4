"""How much of an outcome an error changes: one vessel, or all its replicates, and the notes that repeat its numbers.

Laboratories make systematic errors as often as single ones, and a single odd replicate is found without any science.
"""

import re
from collections.abc import Sequence
from decimal import Decimal

from simulation.lab.deviations import measure_deviation
from simulation.lab.outcomes import NOTE
from simulation.offline.injectors import edits, sizes
from simulation.offline.volumetric import format_delivered_volume

ONE, ALL = "one", "all"
_INDEX = re.compile(r"(?<![\w.:/-])[0-9]+(?![\w.%/]|:[0-9])")
_AGREEING = Decimal("1.5")  # readings of replicates are within this factor of each other
_ON_CONTENTS = re.compile(r"Volume of |Filled to the mark")
_PART = re.compile(r"(?:(?P<times>[0-9]+) × )?(?P<amount>[0-9.]+ [^\s,]+)")


def list_scopes(case: edits.Case, plan: edits.Plan, systematic: bool = True) -> list[tuple[str, edits.Plan]]:
    """Return the plan, and if `systematic` the same error in all replicates, each with its scope.

    Notes follow the numbers that they repeat.
    """
    scoped = [(_find_scope(plan), plan), (ALL, spread_plan(case, plan) if systematic else None)]
    followed = [(scope, follow_notes(case, each)) for scope, each in scoped if each is not None]
    return [(scope, each) for scope, each in followed if each is not None]


def _find_scope(plan: edits.Plan) -> str:
    """Return whether the plan gives several materials or observations the same text, so that it is systematic by itself."""
    first = plan.edits[0]
    alike = {
        edit.position
        for edit in plan.edits
        if (edit.part, edit.field, edit.new) == (first.part, first.field, first.new)
    }
    return ALL if len(alike) > 1 else ONE


def spread_plan(case: edits.Case, plan: edits.Plan) -> edits.Plan | None:
    """Return the plan with the same error in every replicate of what it changes, or None if there are none.

    Replicates are materials whose names differ in a number only and of which the outcome states the same, or readings
    of one quantity in such materials that agree.
    """
    if len({(edit.part, edit.position) for edit in plan.edits}) != 1:
        return None
    first = plan.edits[0]
    if first.part == edits.MATERIALS:
        fellows = [one for one in _list_fellows(case, first) if _has_same_texts(one, plan.edits)]
        further = [edit._replace(position=one.position) for one in fellows for edit in plan.edits]
    else:
        if len(plan.edits) != 1 or first.field != "value":
            return None
        further = [edit for reading in _list_fellow_readings(case, first) if (edit := _repeat_change(first, reading))]
    if not further:
        return None
    number = 1 + len({edit.position for edit in further})
    return edits.Plan(plan.rule, f"{plan.explanation}; the same in all {number} replicates", (*plan.edits, *further))


def _list_fellows(case: edits.Case, edit: edits.Edit) -> list[edits.Produced]:
    """Return the other materials of the outcome whose names differ from that of the edited one in a number only."""
    edited = case.all_materials[edit.position]
    base = _INDEX.sub("#", edited.name)
    if base == edited.name:
        return []
    return [one for one in case.all_materials if one is not edited and _INDEX.sub("#", one.name) == base]


def _has_same_texts(material: edits.Produced, planned: Sequence[edits.Edit]) -> bool:
    """Return whether the material states what the edited one stated before."""
    return all(edits.read_text(material, edit.field) == edit.old for edit in planned)


def _list_fellow_readings(case: edits.Case, edit: edits.Edit) -> list[edits.Reading]:
    """Return the other readings of the same quantity in replicates, if they agree with the edited one."""
    edited = case.readings[edit.position]
    if edited.subject is None:
        return []
    base = _INDEX.sub("#", edited.description)
    name = case.all_materials[edited.subject].name
    if _INDEX.sub("#", name) == name:
        return []
    return [
        one
        for one in case.readings
        if one is not edited
        and one.subject is not None
        and one.subject != edited.subject
        and _INDEX.sub("#", one.description) == base
        and _agree(one.value, edited.value)
    ]


def _agree(first: str, second: str) -> bool:
    numbers = [Decimal(number) for text in (first, second) for number in edits.NUMBER.findall(text)]
    same_form = edits.NUMBER.sub("#", first) == edits.NUMBER.sub("#", second)
    if not numbers or not same_form:
        return first == second
    if edits.SHARE.fullmatch(first):
        numbers = [Decimal(text.partition(" ")[0]) for text in (first, second)]
    return min(numbers) > 0 and max(numbers) <= min(numbers) * _AGREEING


def _repeat_change(edit: edits.Edit, reading: edits.Reading) -> edits.Edit | None:
    """Return the edit that changes a reading as `edit` changed another: the same factor, difference or text."""
    if reading.value == edit.old:
        return reading.change(edit.new)
    before, after = (edits.NUMBER.findall(text) for text in (edit.old, edit.new))
    if not before or len(before) != len(after) or edits.NUMBER.sub("#", edit.old) != edits.NUMBER.sub("#", edit.new):
        return reading.change(edit.new)
    deviation = measure_deviation(edit.old, edit.new)
    # Without a zero that means none (pH, potentials), what is shared is the difference and not the factor.
    if deviation is None or "pH" in reading.description:
        return reading.change(sizes.shift_reading(reading.value, Decimal(after[0]) - Decimal(before[0])))
    return reading.change(sizes.scale_reading(reading.value, 1 + Decimal(str(deviation))))


def follow_notes(case: edits.Case, plan: edits.Plan) -> edits.Plan | None:
    """Return the plan with edits of the routine notes that repeat an edited volume: of a new vessel, or of any contents.

    Return None if a note repeats it in a form that cannot state the new volumes.
    """
    volumes = [edit for edit in plan.edits if edit.part == edits.MATERIALS and edit.field == "properties.volume"]
    edited_notes = {edit.position for edit in plan.edits if edit.part == edits.OBSERVATIONS}
    made = [edit for edit in volumes if case.all_materials[edit.position].before is None]
    further = []
    for reading in case.readings:
        # These notes state how much is in the vessels, whether or not they were there before.
        changed = volumes if _ON_CONTENTS.match(reading.description) else made
        if reading.measurement_type != NOTE or reading.position in edited_notes or not changed:
            continue
        if not _repeats(reading, changed[0]):
            continue
        value = _rewrite_note(case, reading, changed)
        if value is None:
            return None
        further.append(reading.change(value))
    return plan._replace(edits=(*plan.edits, *further))


def _repeats(reading: edits.Reading, edit: edits.Edit) -> bool:
    """Return whether one of the volumes in a note is the one that the edit replaces."""
    old = edits.parse_amount(edit.old, "volume")
    amounts = [edits.parse_amount(match["amount"], "volume") for match in _PART.finditer(reading.value)]
    return old is not None and old.value > 0 and any(amount and amount.value == old.value for amount in amounts)


def _rewrite_note(case: edits.Case, reading: edits.Reading, made: Sequence[edits.Edit]) -> str | None:
    """Return the note with the volumes of the edited new vessels, or None if its form has no place for them."""
    if reading.description.startswith("Volume of"):
        # Such a note states one volume for all of its vessels.
        holders = [one for one in case.all_materials if str(one.draft.properties.get("volume")) == made[0].old]
        texts = {edit.new for edit in made}
        return texts.pop() if len(texts) == 1 and len(holders) == len(made) else None
    parts, right = [], edits.parse_amount(made[0].old, "volume")
    for match in _PART.finditer(reading.value):
        amount, times = edits.parse_amount(match["amount"], "volume"), int(match["times"] or 1)
        if right is None or amount is None or amount.value != right.value:
            parts.append(match[0])
            continue
        if len(made) > times or len({edit.new for edit in made}) > 1:
            return None
        parts += [
            _format_part(times - len(made), match["amount"]),
            _format_part(len(made), _format_volume(made[0].new)),
        ]
    parts = [part for part in parts if part]
    return ", ".join(parts) if len(parts) <= 2 else None


def _format_part(times: int, text: str) -> str:
    return f"{times} × {text}" if times > 1 else text if times else ""


def _format_volume(text: str) -> str:
    amount = edits.parse_amount(text, "volume")
    return format_delivered_volume(amount.value) if amount else text
