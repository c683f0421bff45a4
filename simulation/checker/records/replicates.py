"""L20 within one record: replicate readings agree, and a percentage follows from its counts."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import units, words
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.lab import quantities

_SHARE = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)\s?%\s?\(([0-9]{1,12}) (?:of|/|out of) ([0-9]{1,12})")
_PARTS = re.compile(r"([0-9]{1,12}) (?:of|out of) ([0-9]{1,12})\b")


def check_replicates(transition: Transition, seen: ObservationView) -> Findings:
    """Yield a finding if one of several readings of a sample is about tenfold higher or lower than the others."""
    parts = seen.value[:1000].split(", ")
    numbers = [found for part in parts if (found := units.split_number(part))]
    if (
        len(parts) < 2
        or len(numbers) != len(parts)
        or len({other_values.strip() for _, _, other_values in numbers if other_values.strip()}) > 2
    ):
        return
    values = sorted(number for number, _, _ in numbers)
    # These words announce readings of different samples, which may differ tenfold.
    if values[0] <= 0 or re.search(
        r"standards\b|dilutions\b|peaks\b|series\b|samples\b|respectively", seen.description, re.IGNORECASE
    ):
        return
    # The outlier is the lowest value if it is far below the next one, otherwise the highest value.
    other_values, outlier = (values[1:], values[0]) if values[1] / values[0] > 5 else (values[:-1], values[-1])
    if other_values[-1] > other_values[0] * Decimal("1.5") or len(values) < 3:
        # With two readings it is unclear which is the outlier; a tenfold difference is an error only if the action set
        # two readings per sample.
        if len(values) == 2 and Decimal("8.5") <= values[1] / values[0] <= Decimal("11.5"):
            if find_replicate_count(transition) == 2:
                yield error_finding(
                    "L20",
                    seen.path,
                    "two similar readings",
                    seen.value[:60],
                    f"two readings of one sample differ tenfold: {seen.value[:60]}",
                )
                return
            yield undecided_finding(
                "L20", seen.path, "two readings differ tenfold; which one is wrong, if any, is not known"
            )
        return
    yield Decided("L20")
    # Tenfold within the scatter of replicates: a slipped decimal point. Other ratios may be real.
    if any(
        Decimal("0.75") < ratio / 10 < Decimal("1.35")
        for ratio in (outlier / other_values[-1], other_values[0] / outlier)
    ):
        yield error_finding(
            "L20",
            seen.path,
            f"about {other_values[0]}",
            str(outlier),
            f"one of {len(values)} readings is {outlier}, the others range from {other_values[0]} to {other_values[-1]}",
        )


def find_replicate_count(transition: Transition) -> int | None:
    """Return how many times each sample is read, or None if the action does not state it."""
    kind = transition.action_type
    defaults = {p.name: p.default for p in kind.parameters if p.default is not None} if kind else {}
    settings = {**defaults, **transition.parameters.raw}
    counts = {
        units.parse_number(value)
        for key, value in settings.items()
        if {"replicate", "reading", "repeat"} & set(words.tokenize(str(key)))
    }
    count = counts.pop() if len(counts) == 1 else None
    return int(count) if count is not None and 0 < count < 100 else None


def check_share(seen: ObservationView) -> Findings:
    """Yield an error if the numbers in "45 % (4500 of 10000)" do not agree or the part is larger than the whole."""
    if found := _SHARE.search(seen.full_text[:2000]):
        percent, part, total = Decimal(found[1]), Decimal(found[2]), Decimal(found[3])
        yield Decided("L20", quantity=True)
        if part > total:
            yield error_finding(
                "L23", seen.path, f"at most {total}", str(part), f"{part} of {total} is more than the whole"
            )
        # 0.6 percentage points for a percentage without decimals, plus 2 % of the percentage for rounded counts.
        elif total and abs(part / total * 100 - percent) > Decimal("0.6") + percent / 50:
            yield error_finding(
                "L20",
                seen.path,
                f"{quantities.format_number(part / total * 100)} %",
                f"{percent} %",
                f"{part} of {total} is not {percent} %",
            )
    elif (found := _PARTS.search(seen.full_text[:2000])) and int(found[1]) > int(found[2]) > 0:
        yield error_finding(
            "L23", seen.path, f"at most {found[2]}", found[1], f"{found[1]} of {found[2]} is more than the whole"
        )
