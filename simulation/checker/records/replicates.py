"""L20 within one record: replicate readings agree, and a share is what its numbers make."""

import re
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import units, words
from simulation.checker.reading.transition import Seen, Transition
from simulation.lab import quantities

_SHARE = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)\s?%\s?\(([0-9]{1,12}) (?:of|/|out of) ([0-9]{1,12})")


_PARTS = re.compile(r"([0-9]{1,12}) (?:of|out of) ([0-9]{1,12})\b")


def readings(transition: Transition, seen: Seen) -> Said:
    """Of several readings of one sample, one with its point in another place."""
    parts = seen.value[:1000].split(", ")
    numbers = [found for part in parts if (found := units.number_and_rest(part))]
    if (
        len(parts) < 2
        or len(numbers) != len(parts)
        or len({rest.strip() for _, _, rest in numbers if rest.strip()}) > 2
    ):
        return
    values = sorted(number for number, _, _ in numbers)
    if values[0] <= 0 or re.search(
        r"standards\b|dilutions\b|peaks\b|series\b|samples\b|respectively", seen.description, re.IGNORECASE
    ):
        return
    rest, odd = (values[1:], values[0]) if values[1] / values[0] > 5 else (values[:-1], values[-1])
    if rest[-1] > rest[0] * Decimal("1.5") or len(values) < 3:
        if len(values) == 2 and Decimal("8.5") <= values[1] / values[0] <= Decimal("11.5"):
            if number(transition) == 2:
                yield error(
                    "L20",
                    seen.place,
                    "two like readings",
                    seen.value[:60],
                    f"two readings of one sample differ tenfold: {seen.value[:60]}",
                )
                return
            yield undecided("L20", seen.place, "two readings differ tenfold; which one is wrong, if any, is not known")
        return
    yield Ran("L20")
    if any(Decimal("0.75") < ratio / 10 < Decimal("1.35") for ratio in (odd / rest[-1], rest[0] / odd)):
        yield error(
            "L20",
            seen.place,
            f"about {rest[0]}",
            str(odd),
            f"one of {len(values)} readings is {odd}, the others are from {rest[0]} to {rest[-1]}",
        )


def number(transition: Transition) -> int | None:
    """How many times each sample is read, if the action says."""
    kind = transition.kind
    defaults = {p.name: p.default for p in kind.parameters if p.default is not None} if kind else {}
    written = {**defaults, **transition.parameters.raw}
    found = {
        units.number(value)
        for key, value in written.items()
        if {"replicate", "reading", "repeat"} & set(words.cut(str(key)))
    }
    number = found.pop() if len(found) == 1 else None
    return int(number) if number is not None and 0 < number < 100 else None


def share(seen: Seen) -> Said:
    """ "45 % (4500 of 10000)": the three fit together, and the part is not more than the whole."""
    if found := _SHARE.search(seen.text[:2000]):
        percent, part, whole = Decimal(found[1]), Decimal(found[2]), Decimal(found[3])
        yield Ran("L20", quantity=True)
        if part > whole:
            yield error("L23", seen.place, f"at most {whole}", str(part), f"{part} of {whole} is more than all")
        elif whole and abs(part / whole * 100 - percent) > Decimal("0.6") + percent / 50:
            yield error(
                "L20",
                seen.place,
                f"{quantities.plain(part / whole * 100)} %",
                f"{percent} %",
                f"{part} of {whole} is not {percent} %",
            )
    elif (found := _PARTS.search(seen.text[:2000])) and int(found[1]) > int(found[2]) > 0:
        yield error("L23", seen.place, f"at most {found[2]}", found[1], f"{found[1]} of {found[2]} is more than all")
