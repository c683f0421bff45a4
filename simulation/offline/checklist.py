"""The rule-based classifier. It checks every line of a rubric against the transcript and uses nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.errors import LabError
from simulation.lab.name_ranges import fold_names
from simulation.lab.outcomes import Verdict
from simulation.lab.roles import TranscriptStep
from simulation.lab.rubrics import RubricLine
from simulation.offline.evidence import (
    Reading,
    agree_in,
    agrees_with_earlier_lines,
    collect_distinct_values,
    collect_readings,
    collect_values,
    follows_all_of,
    follows_earlier_lines,
    matches_line,
    matches_step,
    precedes,
    repeats_earlier_lines,
)

_LISTED_NAMES = 4  # names listed before "and n more"
_DISTINCT_RATIO = Decimal("1.05")  # ratio of two shares up to which they count as equal


@dataclass(frozen=True)
class Finding:
    """A line of the rubric, the readings that count for it, and whether they are enough."""

    line: RubricLine
    counted: tuple[Reading, ...]
    met: bool
    reason: str

    def to_dict(self) -> dict[str, Any]:
        steps = sorted({reading.step for reading in self.counted})
        line = self.line
        return {"line": line.text, "route": line.route, "met": self.met, "reason": self.reason, "steps": steps}

    def require(self, met: bool, reason: str) -> "Finding":
        """Return a copy that is met only if this further requirement is, with its reason appended."""
        return replace(self, met=self.met and met, reason=f"{self.reason}; {reason}")


class ChecklistClassifier:
    """A classifier: a record is sufficient if every required line is met and, if there are routes, one is complete."""

    def __init__(self, rubric: Sequence[Mapping[str, Any]], goal: str = "") -> None:
        self.lines = tuple(RubricLine.model_validate(line) for line in rubric)
        self.goal = goal
        if not self.lines:
            raise LabError("a checklist needs at least one line")

    def judge_evidence(self, goal: str, transcript: Sequence[TranscriptStep]) -> Verdict:
        if self.goal and goal != self.goal:
            raise LabError("this checklist belongs to another goal")
        return _build_verdict(self.evaluate_lines(transcript))

    def measure_evidence(self, transcript: Sequence[TranscriptStep]) -> float:
        """Return the share of the judged lines that are met: from 0 to 1, and 1 if the record is sufficient."""
        judged = _select_judged_lines(self.evaluate_lines(transcript))
        return sum(finding.met for finding in judged) / len(judged)

    def evaluate_lines(self, transcript: Sequence[TranscriptStep]) -> list[Finding]:
        """Return a finding for every line of the rubric, in its order."""
        all_readings = collect_readings(transcript)
        by_line: dict[str, Finding] = {}
        by_name: dict[str, Finding] = {}  # as `by_line`, and for each group all readings that its lines counted
        for line in self.lines:
            finding = _require_spread(_evaluate_line(line, all_readings, by_name), by_name)
            finding = _require_span(_require_shares(finding, by_name))
            by_line[line.line] = by_name[line.line] = finding
            if line.one_of:
                before = by_name[line.one_of].counted if line.one_of in by_name else ()
                by_name[line.one_of] = replace(finding, counted=(*before, *finding.counted))
        # Brackets are checked last: a line may bracket the signals of lines that follow it.
        return [_require_brackets(finding, by_line) for finding in by_line.values()]


def _evaluate_line(
    line: RubricLine, all_readings: Sequence[Reading], earlier_findings: Mapping[str, Finding]
) -> Finding:
    earlier = [earlier_findings[name].counted for name in line.after]
    repeated, compared = (
        {name: earlier_findings[name].counted for name in names} for names in (line.again, line.agrees_with)
    )
    candidates = [reading.filter_observations(line.about) for reading in all_readings] if line.about else all_readings
    counted = tuple(
        reading
        for reading in candidates
        if matches_line(line, reading)
        and follows_earlier_lines(reading, earlier)
        and _is_in_time(line, reading, earlier_findings)
        and (not line.shares.get("known") or bool(_find_shares(reading, line.shares, earlier_findings)))
        and _agrees_with_earlier_lines(line, reading, earlier_findings)
        and repeats_earlier_lines(line.again, reading, repeated)
        and agrees_with_earlier_lines(line.agrees_with, reading, compared)
        and all(follows_all_of(reading, earlier_findings[name].counted) for name in line.follows)
        and not _is_excluded(line, reading, all_readings)
    )
    if line.same:
        counted = _find_largest_group(counted, line)
    if line.each:
        things = {name: {r.barcode for r in counted if name in r.origins} for name in line.each}
        missing = [name for name in line.each if len(things[name]) < line.at_least]
        reason = f"too few of {_abbreviate_names(missing)}" if missing else f"all of {_abbreviate_names(line.each)}"
        return Finding(line, counted, not missing, f"{reason}; {line.at_least} of each needed")
    what = f"different values of {line.distinct}" if line.distinct else "materials"
    number = _count(line, counted)
    return Finding(line, counted, number >= line.at_least, f"{what} counted: {number}, needed: {line.at_least}")


def _is_excluded(line: RubricLine, reading: Reading, all_readings: Sequence[Reading]) -> bool:
    """Return whether the material or an ancestor went through a step that the line excludes, before this one."""
    return any(
        matches_step(entry, other) and precedes(other, reading) for entry in line.never for other in all_readings
    )


def _agrees_with_earlier_lines(line: RubricLine, reading: Reading, earlier_findings: Mapping[str, Finding]) -> bool:
    """Return whether each line in `same_as` counted a material that agrees with this one in the values named there."""
    return all(
        any(agree_in(values, reading, other) for other in earlier_findings[name].counted)
        for name, values in line.same_as.items()
    )


def _find_largest_group(readings: Sequence[Reading], line: RubricLine) -> tuple[Reading, ...]:
    """Return the readings that agree in `same` with one of them, for the one with the most of what the line counts."""
    groups = [tuple(other for other in readings if agree_in(line.same, reading, other)) for reading in readings]
    return max(groups, key=lambda group: _count(line, group), default=())


def _count(line: RubricLine, readings: Sequence[Reading]) -> int:
    """Return the number of different values, if the line counts values, or of different materials."""
    if line.distinct:
        return len(collect_distinct_values(readings, line.distinct))
    return len({reading.barcode for reading in readings})


def _require_span(finding: Finding) -> Finding:
    """Return the finding, set to not met if the values of a property or parameter lie too close together."""
    for name, factor in finding.line.span.items():
        values = collect_values(finding.counted, name)
        met = bool(values) and max(values) >= min(values) * Decimal(factor)
        finding = finding.require(met, f"highest over lowest {name}, needed: {factor}")
    return finding


def _require_spread(finding: Finding, earlier_findings: Mapping[str, Finding]) -> Finding:
    """Return the finding, set to not met if its materials descend from too few of those that another line counted."""
    for name, least in finding.line.spread.items():
        parents = frozenset(reading.barcode for reading in earlier_findings[name].counted)
        number = len({reading.ancestors & parents for reading in finding.counted} - {frozenset()})
        finding = finding.require(number >= least, f"different {name} they come from: {number}, needed: {least}")
    return finding


def _require_shares(finding: Finding, earlier_findings: Mapping[str, Finding]) -> Finding:
    """Return the finding, set to not met if the shares in its materials are too few or differ too much."""
    shares = finding.line.shares
    if not {"different", "within"} & shares.keys():
        return finding
    # By material: three lysates, each diluted once, are not a dilution series.
    series: dict[str, list[Decimal]] = {}
    smallest: list[Decimal] = []
    for reading in finding.counted:
        known = _find_shares(reading, shares, earlier_findings)
        # Of a suspension and its dilution, both in the material, the share of the suspension is the smaller one.
        smallest += [min(known.values())] if known else []
        for name, share in known.items():
            series.setdefault(name, []).append(share)
    if "different" in shares:
        number = max((_count_distinct_shares(sorted(values)) for values in series.values()), default=0)
        reason = f"different shares of {shares['of']}: {number}, needed: {shares['different']}"
        finding = finding.require(number >= shares["different"], reason)
    if "within" in shares:
        met = bool(smallest) and max(smallest) <= min(smallest) * Decimal(shares["within"])
        finding = finding.require(met, f"shares equal within a factor of {shares['within']}: {'yes' if met else 'no'}")
    return finding


def _count_distinct_shares(sorted_shares: Sequence[Decimal]) -> int:
    """Return the number of distinct shares. Shares within 5 % count as one, because of rounding and pipetting."""
    number, last = 0, None
    for share in sorted_shares:
        if last is None or share > last * _DISTINCT_RATIO:
            number, last = number + 1, share
    return number


def _find_shares(
    reading: Reading, shares: Mapping[str, Any], earlier_findings: Mapping[str, Finding]
) -> dict[str, Decimal]:
    """Return the known shares that a line asks about, by material; with "at", those when that line counted it."""
    if "at" in shares:
        earlier_readings = [other for other in earlier_findings[shares["at"]].counted if precedes(other, reading)]
        if not earlier_readings:
            return {}
        # Readings of the material itself are preferred, then those of its closest ancestor; of these the latest.
        reading = max(
            earlier_readings,
            key=lambda earlier: (earlier.barcode == reading.barcode, len(earlier.ancestors), earlier.step),
        )
    if shares["of"] not in earlier_findings:
        return {name: share for name, share in reading.shares.items() if name == shares["of"]}
    counted = {other.barcode for other in earlier_findings[shares["of"]].counted if other.barcode in reading.ancestors}
    values = {code: Decimal(1) if code == reading.barcode else reading.shares.get(code) for code in counted}
    return {code: share for code, share in values.items() if share is not None}


def _is_in_time(line: RubricLine, reading: Reading, earlier_findings: Mapping[str, Finding]) -> bool:
    """Return whether the time since the line `since` first counted the material or an ancestor is within the bounds."""
    if not line.elapsed:
        return True
    counted = earlier_findings[line.elapsed["since"]].counted
    start_times = [other.started_at for other in counted if precedes(other, reading)]
    if not start_times:
        return False
    seconds = Decimal(reading.started_at - min(start_times))
    low, high = (line.elapsed.get(name) for name in ("at_least", "at_most"))
    long_enough = not low or seconds >= quantities.parse_quantity(low, "duration").value
    return long_enough and (not high or seconds <= quantities.parse_quantity(high, "duration").value)


def _abbreviate_names(names: Sequence[str]) -> str:
    """Return the names as a list, "fish 1 to 5" for five of them; if there are many, the first few and the number of others."""
    names = fold_names(names)
    # One name more than the limit is listed in full: it takes no more room than "and 1 more".
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES + 1 else ""
    return ", ".join(names[:_LISTED_NAMES] if more else names) + more


def _require_brackets(finding: Finding, earlier_findings: Mapping[str, Finding]) -> Finding:
    """Return the finding, set to not met unless its own signals enclose all signals of the lines it must bracket."""
    line = finding.line
    if not (finding.met and line.brackets):
        return finding
    own_signals = _list_signals(finding)
    sample_signals = [signal for name in line.brackets for signal in _list_signals(earlier_findings[name])]
    if not own_signals or not sample_signals:
        return finding.require(False, "no sample signal to compare them with")
    low, high = min(own_signals), max(own_signals)
    inside = [signal for signal in sample_signals if low <= signal <= high]
    reason = f"{len(inside)} of {len(sample_signals)} sample signals lie between {low} and {high}"
    return finding.require(len(inside) == len(sample_signals), reason)


def _list_signals(finding: Finding) -> list[Decimal]:
    return [reading.first_number for reading in finding.counted if reading.first_number is not None]


def _select_judged_lines(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that decide: of all required lines, and of the route with the largest share of lines met."""
    required = _select_judged([finding for finding in findings if not finding.line.route])
    routes: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.line.route:
            routes.setdefault(finding.line.route, []).append(finding)
    ways = [_select_judged(route) for route in routes.values()]
    best = max(ways, key=lambda way: sum(finding.met for finding in way) / len(way), default=[])
    return [*required, *best]


def _build_verdict(findings: Sequence[Finding]) -> Verdict:
    """Return the verdict. Its confidence is 0.5 plus half the share of judged lines that support it."""
    judged = _select_judged_lines(findings)
    missed = [f"{finding.line.text} ({finding.reason})" for finding in judged if not finding.met]
    met, sufficient = len(judged) - len(missed), not missed
    support = "directly supports" if sufficient else "partially supports" if met else "does not support"
    return Verdict(
        sufficient=sufficient,
        reasoning=f"{met} of {len(judged)} lines met. " + ("Missing: " + "; ".join(missed) if missed else ""),
        confidence=round(0.5 + 0.5 * (len(missed) or met) / len(judged), 3),
        goal_relevance=f"{support} goal",
        evidence_strength="strong" if sufficient else "moderate" if 2 * met >= len(judged) else "weak",
        lines=tuple(finding.to_dict() for finding in findings),
    )


def _select_judged(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that count. Of a `one_of` group, only one counts: the first that is met, else the first."""
    chosen: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        name = ("one of", finding.line.one_of) if finding.line.one_of else ("line", finding.line.line)
        if name not in chosen or (finding.met and not chosen[name].met):
            chosen[name] = finding
    return list(chosen.values())
