"""L13: the time that a record states against the time that the settings take.

The settings give several readings of "the time of this step" (with and without rest, purge or equilibration). A stated
total is wrong only if it is none of them, and a time on the clock only if it is shorter than the shortest of them.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.findings import Findings, compare, error_finding, require
from simulation.checker.reading import claims, lexicon, units
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set
from simulation.checker.relations.arithmetic import compile_label

_MINUTE, _DAY = Decimal(60), Decimal(86_400)
_SHORTEST = Decimal("0.95")  # factor of the shortest time: rounding of a clock
_STATED = Decimal("0.05")  # share of a computed time
# Words in the names of durations that are no part of how long the step takes.
_NOT_SEQUENTIAL = word_set("interval exposure settling reading gradient at delay record mixing viewing frame lag ramp")
_CHROMATOGRAPHY = ("HPLC", "MassSpectrometry", "CapillaryElectrophoresis")
_CYCLED = word_set("denaturation annealing extension")
_START_WORD = r"(?:in|on|start\w*|began|begin\w*|begun|from|since|loaded|von|ab|de|desde|inicio|debut|beginn)"
_END_WORD = r"(?:out|off|stop\w*|end\w*|finish\w*|done|until|till|to|bis|a|hasta|fin|ende|complete\w*|unloaded|removed)"
_CLOCK = r"([01]?[0-9]|2[0-3])[:.h]([0-5][0-9])(?:[:.][0-5][0-9])?"
# "in 14:00 out 16:00", "Started: 10:05; ended (after the last run): 11:17", "10:05 to 11:17", "10:05-11:17".
_FROM_TO = re.compile(
    rf"\b{_START_WORD}\b[^0-9\n]{{0,25}}{_CLOCK}(?:\s?h|\s?Uhr)?[^0-9\n]{{0,60}}?\b{_END_WORD}\b[^0-9\n]{{0,45}}{_CLOCK}(?![0-9])"
    rf"|(?<![0-9:.]){_CLOCK}(?:\s?h|\s?Uhr)?\s?(?:-|–|to|until|till|bis|->|→|a)\s?{_CLOCK}(?![0-9:.])",
    re.IGNORECASE,
)
_TIME_OF_DAY = re.compile(rf"(?<![0-9:.]){_CLOCK}(?![0-9:.])")
# "t=86400 s: lysis started".
_EVENT = re.compile(
    r"\b(?:t|time)\s?[=:]\s?([0-9]{1,9}(?:\.[0-9]{1,3})?)\s?(s|sec|min|h|d|days?)\b[:,]?\s?([^;\]|]{0,80})",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:complete\w*|finish\w*|done|end(?:ed)?|collected|eluates?|taken out|removed|stopped|off|over)\b",
    re.IGNORECASE,
)
_TOTAL = compile_label(
    r"\b(?:total|overall|elapsed|sequence|entire|whole|all|together|in all|took|lasted|sweep|scan|run|barrido|analysis|program\w*|protocol)\b.*\btime\b|\btime\b.*\b(?:total|sweep|scan|run|all|elapsed|barrido)\b"
    r"|\btook\b|\blasted\b|\belapsed\b|\bsweep\b|\b(?:total|run|batch|whole|cycling|measurement|acquisition) duration\b|\bacquisition time\b|\brun ?time\b|\bsequence (?:length|duration)\b|\blaufzeit\b|\bmesszeit\b|\bduree totale\b"
)
_PART = compile_label(
    r"\b(?:per|each|single|one|every|first|last|retention|rest\w*|purge\w*|equilibrat\w*|dead|hold|void|half|settling|exposure|response|rise|decay)\b"
)
_SENTENCE = re.compile(r"[;\n|]|\.\s")
_SYMBOLS = word_set("t s min h = sec ms")
_SWEEP = ("start_potential", "vertex_potential", "end_potential")


class Times(NamedTuple):
    """The readings of how long a step takes in seconds, and the shortest of the whole step."""

    possible: tuple[Decimal, ...]
    shortest: Decimal


def check_clocks(transition: Transition) -> Findings:
    """L13: yield an error if a record states a total or clock times that the settings do not allow."""
    times = find_times(transition)
    for view in transition.usable_outputs:
        yield from _check_start_and_end(view, times)
    if times is not None:
        texts = list(_iter_texts(transition))
        for subject, text in texts:
            yield from _check_from_to(subject, text, times)
            yield from _check_moments(subject, text, times)
            yield from _check_events(subject, text, times)
        for view in transition.usable_outputs:
            yield from _check_from_to(view.name, _join_clock_fields(view.leaves), times)
        yield from _check_stated_totals(transition, times)
        yield from _check_timestamps(transition, times)
    yield from _check_time_since(transition)
    if transition.action in ("UseMicroscope", "UsePlateReader", "ImageSample"):
        yield from _check_recording(transition)


def _iter_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (subject, text) of the observations and of each property that this step wrote, lists joined."""
    for seen in transition.observations:
        yield seen.path, f"{seen.description}: {seen.value}"[:1500]
    for view in transition.usable_outputs:
        texts: dict[str, list[str]] = {}
        for leaf in view.leaves:
            if leaf.value_text and leaf.value_text not in transition.input_texts:
                texts.setdefault(leaf.key, []).append(leaf.value_text)
        yield from ((view.name, "; ".join(parts)) for parts in texts.values())


def find_times(transition: Transition) -> Times | None:
    """Return how long the settings of an action take, or None if they do not determine it."""
    durations = {
        " ".join(leaf.words): amount.value
        for leaf, amount in transition.parameters.list_amounts("duration")
        if amount.value > 0 and not leaf.word_set & _NOT_SEQUENTIAL
    }
    if transition.action == "CyclicVoltammetry":
        return _find_sweep_times(transition, durations)
    if transition.action in _CHROMATOGRAPHY:
        return _find_sequence_times(transition, durations)
    if transition.action in ("Thermocycler", "qPCR"):
        return _find_cycled_times(transition, durations)
    if not durations:
        return None
    longest, total = max(durations.values()), sum(durations.values(), Decimal(0))
    return Times((*durations.values(), total), longest)


def _find_sweep_times(transition: Transition, durations: dict[str, Decimal]) -> Times | None:
    potentials = [units.parse_amount(transition.parameters.raw.get(key), "", ("voltage",)) for key in _SWEEP]
    rate = units.parse_amount(transition.parameters.raw.get("scan_rate"), "", ("scan_rate",))
    cycles = units.parse_number(transition.parameters.raw.get("cycles")) or Decimal(1)
    if not potentials[0] or not potentials[1] or rate is None or rate.value <= 0:
        return None
    start, vertex = potentials[0].value, potentials[1].value
    end = potentials[2].value if potentials[2] else start
    cycle = (abs(vertex - start) + abs(vertex - end)) / rate.value
    sweep, extra = cycle * cycles, sorted(durations.values())
    possible = [cycle, sweep, *(sweep + value for value in extra), *(sweep + value * cycles for value in extra)]
    return Times((*possible, sweep + sum(extra, Decimal(0)), *extra), sweep)


def _find_sequence_times(transition: Transition, durations: dict[str, Decimal]) -> Times | None:
    run = next((value for key, value in durations.items() if "run" in key), None)
    if run is None:
        return None
    samples = [v for v in transition.limited_inputs if not transition.parameters.has_named(v) and not v.is_empty_vessel]
    rest = sum((value for key, value in durations.items() if "equilibration" in key), Decimal(0))
    injections = max(1, len(samples)) * (transition.find_replicate_count() or _find_injections(transition))
    cycle = run + rest
    possible = [run, cycle, run * injections, cycle * injections, cycle * injections - rest, cycle * (injections + 1)]
    return Times(tuple(possible), run * injections + rest * (injections - 1))


def _find_injections(transition: Transition) -> int:
    numbers = {
        units.parse_number(leaf.value)
        for leaf in transition.parameters.leaves
        if leaf.word_set & {"injection"} and not leaf.word_set & {"volume", "vol"}
    } - {None}
    count = numbers.pop() if len(numbers) == 1 else None
    return int(count) if count is not None and 0 < count < 100 else 1


def _find_cycled_times(transition: Transition, durations: dict[str, Decimal]) -> Times | None:
    cycles = units.parse_number(transition.parameters.raw.get("cycles"))
    steps = [
        v for key, v in durations.items() if set(key.split()) & _CYCLED and not {"initial", "final"} & set(key.split())
    ]
    once = [v for key, v in durations.items() if {"initial", "final"} & set(key.split())]
    if not cycles or not steps:
        return None
    held = cycles * sum(steps, Decimal(0)) + sum(once, Decimal(0))
    # Heating and cooling between the steps at least double no time, but at most triple it.
    return Times((held,), held)


_MOMENTS = (
    re.compile(
        r"(?P<year>20[0-9]{2})[-/.](?P<month>[0-9]{1,2})[-/.](?P<day>[0-9]{1,2})(?:T|,? )(?P<hour>[0-9]{1,2})[:.h](?P<minute>[0-9]{2})"
    ),
    re.compile(
        r"(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>20[0-9]{2}),? (?P<hour>[0-9]{1,2})[:.h](?P<minute>[0-9]{2})"
    ),
)


def _read_moment(text: str) -> datetime | None:
    """Return the only date with a time of day of a text, or None."""
    matches = [match for pattern in _MOMENTS for match in pattern.finditer(text[:200])]
    return (
        _parse_moment(tuple(matches[0].group("year", "month", "day", "hour", "minute"))) if len(matches) == 1 else None
    )


def _check_start_and_end(view: MaterialView, times: Times | None) -> Findings:
    """Yield an error if the end that a material states is before its start, or too soon after it."""
    moments = [(leaf.word_set, moment) for leaf in view.leaves if (moment := _read_moment(leaf.value_text))]
    starts = {moment for key, moment in moments if key & _BEGIN_KEY and not key & _END_KEY}
    ends = {moment for key, moment in moments if key & _END_KEY and not key & _BEGIN_KEY}
    if len(starts) != 1 or len(ends) != 1:
        return
    elapsed = Decimal((ends.pop() - starts.pop()).total_seconds())
    least = times.shortest * _SHORTEST - 2 * _MINUTE if times is not None else Decimal(0)
    shown = units.format_value(max(least, Decimal(0)), "duration"), units.format_value(elapsed, "duration")
    message = f"{view.name} ended {shown[1]} after its start, but the settings take {shown[0]}"
    yield from require("L13", elapsed >= max(least, Decimal(0)), view.name, f"at least {shown[0]}", shown[1], message)


_BEGIN_KEY = word_set("start started begin began in entra entrada von ab beginn debut inicio")
_END_KEY = word_set("end ended finish finished stop stopped out sale salida bis fin")


def _join_clock_fields(leaves: tuple[Leaf, ...]) -> str:
    """Return "start 14:20 end 16:05" for a material with one time of day as start and one as end, else ""."""
    times = [(leaf.word_set, leaf.value_text) for leaf in leaves if re.fullmatch(_CLOCK, leaf.value_text.strip())]
    starts = {text for key, text in times if key & _BEGIN_KEY}
    ends = {text for key, text in times if key & _END_KEY}
    return f"start {starts.pop()} end {ends.pop()}" if len(starts) == len(ends) == 1 else ""


def _check_from_to(subject: str, text: str, times: Times) -> Findings:
    """Yield an error if start and end on a clock are closer than the step can take."""
    for match in _FROM_TO.finditer(text):
        numbers = [int(group) for group in match.groups() if group is not None]
        start, end = (Decimal(60 * hour + minute) * _MINUTE for hour, minute in (numbers[:2], numbers[2:4]))
        elapsed = (end - start) % _DAY
        # A clock does not show the days that have passed.
        elapsed += max(0, round((times.shortest - elapsed) / _DAY)) * _DAY
        allowed = times.shortest * (1 - _SHORTEST) + 2 * _MINUTE
        shown = units.format_value(times.shortest, "duration"), units.format_value(elapsed, "duration")
        message = f"{match[0][:60]} is {shown[1]}, but the settings take {shown[0]}"
        yield from compare(
            "L13", subject, times.shortest, elapsed, "duration", message, below=allowed, shown=shown, limit="at least"
        )


_MOMENT = re.compile(r"(?<![0-9])([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2})")
_BEGUN = re.compile(r"\b(?:on|in|start\w*|began|begin|loaded|beginn|debut|inicio)\b", re.IGNORECASE)
_ENDED = re.compile(r"\b(?:off|out|end\w*|stop\w*|finish\w*|done|removed|ende|fin)\b", re.IGNORECASE)


def _check_moments(subject: str, text: str, times: Times) -> Findings:
    """Yield an error if two dates with times of day, or two times beside "on" and "off", are closer than the step takes."""
    dated = [moment for match in _MOMENT.findall(text) if (moment := _parse_moment(match))]
    clocks = [60 * int(hour) + int(minute) for hour, minute in _TIME_OF_DAY.findall(text)]
    if len(dated) == 2:
        elapsed = Decimal((dated[1] - dated[0]).total_seconds())
    elif len(clocks) == 2 and not dated and _BEGUN.search(text) and _ENDED.search(text):
        elapsed = Decimal((clocks[1] - clocks[0]) * 60) % _DAY
        elapsed += max(0, round((times.shortest - elapsed) / _DAY)) * _DAY
    else:
        return
    if elapsed > 0 and _BEGUN.search(text) and _ENDED.search(text):
        allowed = times.shortest * (1 - _SHORTEST) + 2 * _MINUTE
        shown = units.format_value(times.shortest, "duration"), units.format_value(elapsed, "duration")
        message = f"{subject} ended after {shown[1]}, but the settings take {shown[0]}"
        yield from compare(
            "L13", subject, times.shortest, elapsed, "duration", message, below=allowed, shown=shown, limit="at least"
        )


def _parse_moment(numbers: tuple[str, ...]) -> datetime | None:
    year, month, day, hour, minute = map(int, numbers)
    try:
        return datetime(year, month, day, hour, minute)
    except ValueError:
        return None


def _check_events(subject: str, text: str, times: Times) -> Findings:
    """Yield an error if a list of events with times ends before the step can be over."""
    events = _EVENT.findall(text)
    moments = [units.parse_amount(f"{number} {unit}", "", ("duration",)) for number, unit, _ in events]
    known = [moment.value for moment in moments if moment is not None]
    if len(known) < 2 or len(known) != len(events) or not _DONE.search(events[-1][2]):
        return
    elapsed = known[-1] - known[0]
    shown = units.format_value(times.shortest, "duration"), units.format_value(elapsed, "duration")
    message = f"{subject} ended {shown[1]} after its start, but the settings take {shown[0]}"
    yield from require("L13", elapsed >= times.shortest * _SHORTEST, subject, f"at least {shown[0]}", shown[1], message)


def _check_stated_totals(transition: Transition, times: Times) -> Findings:
    """Yield an error if a total time of a record is none of the times that the settings can give."""
    for seen, found in claims.list_observed(transition):
        for claim in found:
            label = f"{claim.label} {claim.context}"
            if not set(claim.label.split()) - _SYMBOLS:
                # "sweep time of all cycles, rest not counted, t = 80 s": the words stand in the same sentence.
                label = next((part for part in _SENTENCE.split(seen.full_text) if claim.text[-12:] in part), label)
            if (
                claim.dimension != "duration"
                or claim.value <= 0
                or not _TOTAL.search(label)
                or _PART.search(claim.label)
            ):
                continue
            if transition.action == "CyclicVoltammetry":
                nearest = min(times.possible, key=lambda value: abs(value - claim.value))
                allowed = nearest * _STATED + claim.step
                expected = times.shortest if abs(nearest - claim.value) > allowed else nearest
                allowed_above: Decimal | None = expected * _STATED + claim.step
            elif claim.value in times.possible:
                continue
            else:
                expected, allowed_above = times.shortest, None
            shown = units.format_value(expected, "duration"), units.format_value(claim.value, "duration")
            message = f"{claim.text} was recorded, but the settings take {shown[0]}"
            below = expected * _STATED + claim.step
            yield from compare(
                "L13", seen.path, expected, claim.value, "duration", message, allowed_above, below, shown=shown
            )


def _check_timestamps(transition: Transition, times: Times) -> Findings:
    """Yield an error if a material was changed again before the step can be over."""
    for before, after in transition.list_pairs():
        old, new = (_find_seconds(view.raw.get("last_modified")) for view in (before, after))
        if old is None or new is None or new <= old or after.is_used_up:
            continue
        elapsed = new - old
        shown = units.format_value(times.shortest, "duration"), units.format_value(elapsed, "duration")
        message = f"{after.name} was changed {shown[1]} after its last change, but the settings take {shown[0]}"
        yield from require(
            "L13", elapsed >= times.shortest * _SHORTEST, after.name, f"at least {shown[0]}", shown[1], message
        )


def _find_seconds(value: object) -> Decimal | None:
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


_PROCESS = r"(transfect|infect|transduc|induc|seed|plat|inoculat|treat|add|stimulat|dos)[a-z]*"
# "48 h after transfection", "24 h post-infection".
_SINCE = re.compile(
    rf"(?<![\w.])([0-9]{{1,4}}(?:\.[0-9]{{1,2}})?)\s?(h|hours?|d|days?|min)\s?(?:after|post|since|p\.|nach|apres)[- ]?(?:the )?{_PROCESS}",
    re.IGNORECASE,
)
# "transfected at t = 3600 s".
_PROCESS_AT = re.compile(rf"\b{_PROCESS} (?:at|@) (?:t ?= ?)?([0-9]{{1,9}}) ?s\b", re.IGNORECASE)


def _check_time_since(transition: Transition) -> Findings:
    """Yield an error if "48 h after transfection" does not follow from the clock or from the age before the step."""
    durations = transition.parameters.list_values("duration")
    for before, after in transition.list_pairs():
        old_text, new_text = _describe(before.name, before.leaves), _describe(after.name, after.leaves)
        new_ages, old_ages = _find_ages(new_text), _find_ages(old_text)
        starts = {stem.lower(): Decimal(seconds) for stem, seconds in _PROCESS_AT.findall(f"{old_text} {new_text}")}
        now = _find_seconds(after.raw.get("last_modified"))
        for process, age in new_ages.items():
            expected = None
            if process in starts and now is not None and now > starts[process]:
                expected = now - starts[process]
            elif process in old_ages and len(durations) == 1 and old_ages[process] != age:
                expected = old_ages[process] + durations[0]
            if expected is not None:
                allowed = max(expected / 10, Decimal(3600))
                shown = units.format_value(expected, "duration"), units.format_value(age, "duration")
                message = f"{after.name} is {shown[1]} after its {process}ion, but {shown[0]} have passed"
                yield from compare("L13", after.name, expected, age, "duration", message, allowed, allowed, shown=shown)


def _describe(name: str, leaves: tuple[Leaf, ...]) -> str:
    return lexicon.remove_accents(" | ".join([name, *(f"{leaf.key} {leaf.value_text}" for leaf in leaves)]))[:1500]


def _find_ages(text: str) -> dict[str, Decimal]:
    """Return {stem of a process: time since it in seconds} as a text states it."""
    ages = {}
    for number, unit, stem in _SINCE.findall(text):
        if (amount := units.parse_amount(f"{number} {unit}", "", ("duration",))) is not None:
            ages[stem.lower()] = amount.value
    return ages


_FRAMES = re.compile(
    r"(?<![\w.])([0-9]{1,6}) (?:frames|images|time ?points|pictures)\b|\b(?:n_?)?(?:frames?|time ?points)\s?[:=]\s?([0-9]{1,6})(?![\w.])",
    re.IGNORECASE,
)


def _check_recording(transition: Transition) -> Findings:
    """Yield an error if frames or pulses of a record do not fit into the time that was recorded."""
    recorded, interval, spacing, first = (
        _find_setting(transition, *names)
        for names in (("record_for", "record"), ("frame_interval",), ("stimulation_interval",), ("stimulation_at",))
    )
    pulses = units.parse_number(transition.parameters.raw.get("stimulation_pulses"))
    for seen in transition.observations if recorded else ():
        text = seen.full_text[:1500]
        stated = {Decimal(first or second) for first, second in _FRAMES.findall(text)}
        if recorded and interval and len(stated) == 1:
            expected, got = recorded / interval, stated.pop()
            message = f"{expected:.0f} frames fit into the recording, not {got}"
            allowed = expected / 50 + 1
            shown = f"{expected:.0f}", str(got)
            yield from compare("L16", seen.path, expected, got, "count", message, allowed, allowed, shown=shown)
        if recorded and spacing and pulses and pulses > 1:
            last = (first or Decimal(0)) + (pulses - 1) * spacing
            has_all = re.search(
                rf"\b{pulses} (?:of|/|out of) {pulses}\b|\ball (?:{pulses} )?(?:pulses|stimuli|transients|responses)\b",
                text,
            )
            if last > recorded * Decimal("1.01") and has_all:
                shown = units.format_value(recorded, "duration"), units.format_value(last, "duration")
                message = f"pulse {pulses} came at {shown[1]}, but the recording ended at {shown[0]}"
                yield error_finding("L16", seen.path, f"at most {shown[0]}", shown[1], message)


def _find_setting(transition: Transition, *names: str) -> Decimal | None:
    amounts = (units.parse_amount(transition.parameters.raw.get(name), "", ("duration",)) for name in names)
    return next(
        (amount.value for amount in amounts if amount and amount.dimension == "duration" and amount.value > 0), None
    )
