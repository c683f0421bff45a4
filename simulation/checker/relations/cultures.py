"""L13: the age of a culture and its growth agree with the time that passed."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, require
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set
from simulation.checker.relations.arithmetic import compare_computed, find_term

_DAY, _HOUR = 86_400, 3600
# Counters of time in names and properties: pattern, seconds of one unit, and tolerance in units. Days are counted from
# 0 or 1 and rounded, so one day of difference is no error.
_AGES = (
    (
        "DIV",
        re.compile(
            r"\bDIV[\s:_-]{0,2}([0-9]{1,3})\b|\b([0-9]{1,3}) ?DIV\b|\bdays? in vitro[\s:]{0,2}([0-9]{1,3})"
            r"|\bday ([0-9]{1,3}) in vitro",
            re.IGNORECASE,
        ),
        _DAY,
        Decimal("1.3"),
    ),
    ("dpf", re.compile(r"\b([0-9]{1,3}) ?dpf\b", re.IGNORECASE), _DAY, Decimal("1.3")),
    ("dpi", re.compile(r"\b([0-9]{1,3}) ?dp[it]\b", re.IGNORECASE), _DAY, Decimal("1.3")),
    ("hpf", re.compile(r"\b([0-9]{1,3}) ?hp[fit]\b", re.IGNORECASE), _HOUR, Decimal(4)),
    ("day", re.compile(r"\bday[\s_-]?([0-9]{1,3})\b", re.IGNORECASE), _DAY, Decimal("1.3")),
)
_PASSAGE = re.compile(
    r"\b(?:passage|psg|pass)\.?(?: number| no\.?)?[\s:_]{0,2}[pP]?([0-9]{1,3})\b|(?<![\w-])P([0-9]{1,2})\b(?![-_/ ]?[0-9A-Za-z])"
)
# "P14" alone is a passage beside the name of a cell line.
_ABOUT_PASSAGE = re.compile(
    r"\bpass(?:age)?\b|\bpsg\b|\b(?:HEK\w*|293T?|HeLa|CHO|U2OS|A549|Vero|COS-?7|NIH[- ]?3T3|J774\S*)\b[^;|]{0,30}\bP[0-9]{1,2}\b",
    re.IGNORECASE,
)
_SPLITTING = word_set("Transfer Aliquot Dilute Combine Resuspend SerialDilute Wash FillToVolume")
# Shortest doubling times in seconds below which no report of healthy cultures lies. HEK293T double in 18 to 24 h, HeLa in 20 to 24,
# CHO in 14 to 20; E. coli in 20 min, Vibrio natriegens in 10. Neurons do not divide.
_DOUBLING = (
    (word_set("neuron neuronal neurons hippocampal cortical"), Decimal(10) ** 9, "neurons"),
    (word_set("hek293t hek293 hek hela u2os a549 nih3t3 fibroblast cos7"), Decimal(12 * _HOUR), "cells of this line"),
    (word_set("cho jurkat mammalian"), Decimal(9 * _HOUR), "animal cells"),
)
_CELLS = re.compile(r"\bcells?\b", re.IGNORECASE)
_NOT_CELLS = re.compile(
    r"\bmini-?cells?|\bline\b|\btype\b|/(?! ?(?:cm2|well|dish|flask))|\bsize\b|\bdiameter\b|\bdead\b|\bpassage\b|\bparticle|\bdoubling",
    re.IGNORECASE,
)
_PER_AREA = re.compile(r"\bper (well|dish|cm2|ml|flask|plate)\b", re.IGNORECASE)
_COUNTING = Decimal("1.3")  # factor of a count: two estimates by eye or counter
_FOLD = re.compile(r"\bfold\b(?!.*dilut)", re.IGNORECASE)
_DOUBLINGS, _DOUBLING_TIME = (
    re.compile(r"\bdoublings?\b(?!.*time)", re.IGNORECASE),
    re.compile(
        r"\bdoubling time\b|\bgeneration time\b|\bt ?d(?:up|bl)?\b|\bverdopplungszeit\b|\bduplicacion\b", re.IGNORECASE
    ),
)


def check_cultures(transition: Transition) -> Findings:
    """L13: yield an error if the age, passage or number of cells of a culture does not fit the time that passed."""
    durations = (
        transition.parameters.list_values("duration")
        if transition.family == words.HEAT or transition.action in ("Wait", "Storage")
        else []
    )
    elapsed = max(durations, default=Decimal(0))
    is_known = bool(durations) or transition.family in (words.READ, words.INERT, words.ADD, words.MOVE)
    for before, after in transition.list_kept_pairs():
        if not before.is_empty_vessel:
            yield from _check_dates(transition, after)
        if is_known and not before.is_empty_vessel:
            yield from _check_age(before, after, elapsed)
        if durations:
            yield from _check_culture_age(before, after, elapsed)
        if transition.action not in _SPLITTING:
            yield from _check_passage(before, after)
        if durations and transition.family == words.HEAT:
            yield from _check_cells(transition, before, after, elapsed)
            yield from _check_stated_growth(transition, before, after, elapsed)


def _list_ages(view: MaterialView, pattern: re.Pattern[str]) -> set[Decimal]:
    """Return all ages that the properties and the name of a material state.

    "DIV 0 = day of plating" defines the counter, and what is planned is no age.
    """
    texts = (text for text in (*_iter_property_texts(view), view.name) if not _NO_AGE.search(text))
    matches = (match for text in texts for match in _as_groups(pattern.findall(text)))
    return {Decimal(next(group for group in match if group)) for match in matches}


def _iter_property_texts(view: MaterialView) -> Iterator[str]:
    for leaf in view.leaves:
        yield _ORDINAL_DAY.sub(_write_day, f"{leaf.key} {leaf.value_text}".replace("_", " "))


_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_DAY_NUMBERS = {word: number for listed in (_UNITS, _ORDINALS) for number, word in enumerate(listed.split())}
# "tenth day in vitro", "10th day in vitro" and "day seventeen in vitro".
_ORDINAL_DAY = re.compile(
    r"\b([a-z]{3,11}|[0-9]{1,3}(?=st|nd|rd|th))(?:st|nd|rd|th)? day in vitro\b|\bday ([a-z]{3,9}) in vitro\b",
    re.IGNORECASE,
)


def _write_day(match: re.Match[str]) -> str:
    """Return "DIV 10" for "tenth day in vitro", or the text unchanged if it has no number."""
    word = (match[1] or match[2]).lower()
    number = word if word.isdigit() else _DAY_NUMBERS.get(word)
    return match[0] if number is None else f"DIV {number}"


def _as_groups(matches: list[str] | list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [match if isinstance(match, tuple) else (match,) for match in matches]


_NO_AGE = re.compile(
    r"=|\bplated\b|\bseeded\b|\bdissect\w*|\bplating\b|\b(?:until|planned|target|use|due|next|imag\w+ on|harvest at|for)\b",
    re.IGNORECASE,
)


def _check_age(before: MaterialView, after: MaterialView, elapsed: Decimal) -> Findings:
    for kind, pattern, unit, tolerance in _AGES:
        old, new = _list_ages(before, pattern), _list_ages(after, pattern)
        # A name or a property may still have the age before the step. Any other age must fit.
        fresh = {age for age in new if age not in old} or (
            {age for age in new if kind != "day"} if len(new) == 1 else set()
        )
        if not old or not fresh:
            continue
        shown = ", ".join(str(age) for age in sorted(fresh))
        was = ", ".join(str(age) for age in sorted(old))
        # After a whole number of days the counter has risen by it, however days are counted.
        is_whole = kind in ("DIV", "dpf", "dpi") and elapsed >= unit and elapsed % unit == 0
        allowed = Decimal("0.5") if is_whole else tolerance
        holds = any(abs(age - start - elapsed / unit) <= allowed for age in fresh for start in old)
        text = f"{after.name} had an age of {was} ({kind}); after {units.format_value(elapsed, 'duration')} it cannot be {shown}"
        yield from require(
            "L13", holds, after.name, f"about {min(old) + elapsed / unit:.3g} {kind}", f"{shown} {kind}", text
        )


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = re.compile(
    r"(?<![0-9])(?:(?P<year>20[0-9]{2})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})|(?P<day2>[0-9]{1,2})\.? ?(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
    r"|(?P<name2>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? (?P<day3>[0-9]{1,2})(?!:)|(?P<day4>[0-9]{1,2})\.(?P<month2>[0-9]{1,2})\.(?:20[0-9]{2})?)(?![0-9])",
    re.IGNORECASE,
)
_BORN = re.compile(
    r"\b(?:plat(?:ed|ing)|seed(?:ed|ing)|dissect\w*|fertili[sz]\w*|laid|spawn\w*|ausgesat|ausplattiert|ensemenc\w*|sembrad\w*|thawed)\b",
    re.IGNORECASE,
)
_DAYS = tuple((kind, pattern) for kind, pattern, unit, _ in _AGES if unit == _DAY)


def _find_days(text: str) -> set[int]:
    """Return the dates of a text as days of a year of 365 days, which is enough for differences of weeks."""
    days = set()
    for match in _DATE.finditer(text):
        name = (match["name"] or match["name2"] or "").lower()
        month = _MONTHS.index(name) if name else int(match["month"] or match["month2"]) - 1
        day = int(match["day"] or match["day2"] or match["day3"] or match["day4"])
        if 0 <= month < 12 and 1 <= day <= 31:
            days.add(sum((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[:month]) + day)
    return days


def _check_dates(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if an age in days is not the time between the date of plating and the date beside it."""
    texts = [*_iter_property_texts(view), *(seen.full_text[:600] for seen in transition.observations)]
    born = {day for text in texts if _BORN.search(text) for day in _find_days(text)}
    if len(born) != 1:
        return
    start = born.pop()
    set_days = {
        day for leaf in transition.parameters.leaves if "date" in leaf.word_set for day in _find_days(leaf.value_text)
    }
    for text in texts:
        today = _find_days(text) if not _BORN.search(text) else set()
        for kind, pattern in _DAYS:
            ages = {Decimal(next(group for group in match if group)) for match in _as_groups(pattern.findall(text))}
            dates = today or set_days
            if len(ages) == 1 and len(dates) == 1 and not _BORN.search(text):
                age, expected = ages.pop(), (dates.pop() - start) % 365
                message = f"{expected} days after plating the age cannot be {age} ({kind})"
                yield from require(
                    "L13",
                    abs(age - expected) <= Decimal("1.3"),
                    view.name,
                    f"{expected} {kind}",
                    f"{age} {kind}",
                    message,
                )


_AGE_WORDS, _NO_AGE_WORDS = (
    word_set("age since old alter edad"),
    word_set(
        "donor embryonic gestational mouse animal maternal medium feeding feed change split thaw storage expiry passage patient embryo"
    ),
)


def _check_culture_age(before: MaterialView, after: MaterialView, elapsed: Decimal) -> Findings:
    """Yield an error if "age: 10 days" or "time since plating: 72 h" did not grow by the time that passed."""
    for leaf in before.leaves:
        if not leaf.word_set & _AGE_WORDS or leaf.word_set & _NO_AGE_WORDS:
            continue
        same = [other for other in after.leaves if other.word_set == leaf.word_set]
        old, new = leaf.parse_amount("duration"), same[0].parse_amount("duration") if len(same) == 1 else None
        if old is None or new is None or old.value == new.value:
            continue
        expected = old.value + elapsed
        # Days are counted from 0 or 1.
        allowed = (
            (Decimal("1.2") * _DAY if "d" in new.text.lower() and new.value >= _DAY else Decimal(0))
            + new.step * 2
            + elapsed / 10
        )
        shown = units.format_value(expected, "duration"), units.format_value(new.value, "duration")
        text = f"{leaf.key} of {after.name} was {units.format_value(old.value, 'duration')}; after this step it is {shown[0]}, not {shown[1]}"
        yield from require("L13", abs(new.value - expected) <= allowed, after.name, shown[0], shown[1], text)


def _check_passage(before: MaterialView, after: MaterialView) -> Findings:
    values = []
    for view in (before, after):
        texts = [text for text in (*_iter_property_texts(view), view.name) if _ABOUT_PASSAGE.search(text)]
        found = {next(group for group in match if group) for text in texts for match in _PASSAGE.findall(text)}
        values.append(found.pop() if len(found) == 1 else None)
    old, new = values
    if old is not None and new is not None:
        text = f"{after.name} was at passage {old} and is at passage {new} without having been split"
        yield from require("L13", old == new, after.name, f"passage {old}", f"passage {new}", text)


_GROWING = re.compile(r"\bcells?\b|\bn\b|\bod ?(?:600)?\b|\bdensity\b|\bcount\b|\bcfu\b", re.IGNORECASE)
_NOT_GROWING = re.compile(
    r"\bper (?:cell|field)\b|\bdead\b|\bviab|\bdilut|\bseed|\bplated|\binitial|\bstart|\bpassage|\bn ?0\b|\blag\b|\bmini-?cells?|\bparticle",
    re.IGNORECASE,
)
_LAG = re.compile(r"\blag\b", re.IGNORECASE)
_EXPONENTIAL = re.compile(
    r"\bexp(?:onential\w*)?\b|\blog(?:arithmic)? phase\b|\b(?:no|sin|without|ohne) lag\b|\bexponen\w+", re.IGNORECASE
)
_SLOWING = re.compile(
    r"\bplateau|\bsaturat|\bstationary|\bdead|\bdying|\blysis|\bfull(?:y)? confluen|\b100 ?% confl|\bslow|\bconfluent",
    re.IGNORECASE,
)


def _check_stated_growth(
    transition: Transition, before: MaterialView, after: MaterialView, elapsed: Decimal
) -> Findings:
    """Yield an error if cells with a stated doubling time grew by more doublings than the time has, or by fewer while exponential."""
    pools = [[*claims.list_claims(transition, [view]), *claims.read_text(view.name)] for view in (before, after)]
    time = find_term(pools[0], _DOUBLING_TIME, ("duration",))
    if time is None or time.value <= 0 or find_term(pools[1], _DOUBLING_TIME, ("duration",)) is None:
        return
    lag = find_term(pools[0], _LAG, ("duration",))
    growing = max(Decimal(0), elapsed - (lag.value if lag else 0))
    factor = Decimal(2) ** min(Decimal(60), growing / time.value)
    text = " ".join([after.name, *_iter_property_texts(after)])
    is_exponential = _EXPONENTIAL.search(text) and not _SLOWING.search(text)
    for old in pools[0]:
        if old.dimension not in ("", "count", "number_density") or old.value <= 0 or not _GROWING.search(old.label):
            continue
        new = find_term([c for c in pools[1] if c.label == old.label], _GROWING, (old.dimension,))
        if new is None or new.value <= old.value or _NOT_GROWING.search(old.label) or _DOUBLING_TIME.search(old.label):
            continue
        expected, got = old.value * factor, new.value
        holds = got <= expected * _COUNTING and (not is_exponential or got >= expected / Decimal("1.5"))
        shown = f"about {expected:.3g}", f"{got:.3g}"
        message = f"{old.text} grows to {shown[0]} in {units.format_value(elapsed, 'duration')} at its doubling time, not to {shown[1]}"
        yield from require("L13", holds, after.name, *shown, message)


_OD = re.compile(r"\bod ?(?:600)?\b|\boptical density\b", re.IGNORECASE)
_SHORTEST = Decimal(8 * 60)  # s; Vibrio natriegens, the fastest known, takes 10 min
_FASTEST = Decimal(14 * 60)  # s; no bacterium of a laboratory divides faster in 37 °C broth, and E. coli takes 20 min


def _check_density(after: MaterialView, elapsed: Decimal, old: list[Claim], new: list[Claim]) -> Findings:
    """Yield an error if the optical density rises by more doublings than the time allows."""
    stated = find_term(new, _DOUBLING_TIME, ("duration",))
    if stated is not None and stated.value > 0:
        text = f"no culture has a doubling time of {units.format_value(stated.value, 'duration')}"
        yield from require(
            "L13",
            stated.value >= _SHORTEST,
            after.name,
            "8 min or more",
            units.format_value(stated.value, "duration"),
            text,
        )
    first, last = find_term(old, _OD), find_term(new, _OD)
    if first and last and 0 < first.value < last.value:
        maximum = first.value * Decimal(2) ** min(Decimal(40), elapsed / _FASTEST) * _COUNTING
        text = f"{after.name} went from an OD of {first.value} to {last.value} in {units.format_value(elapsed, 'duration')}"
        yield from require("L13", last.value <= maximum, after.name, f"at most {maximum:.3g}", str(last.value), text)


def _find_cells(found: list[Claim]) -> tuple[Decimal, str] | None:
    """Return (number of cells, what it is per) that a material states, or None if it states none or several."""
    counts = [
        c
        for c in found
        if c.dimension in ("", "count") and c.matches(_CELLS) and not c.matches(_NOT_CELLS) and c.value > 100
    ]
    if len({claim.value for claim in counts}) != 1:
        return None
    basis = _PER_AREA.search(" ".join(claim.label for claim in counts))
    return counts[0].value, basis[1].lower() if basis else ""


def _check_cells(transition: Transition, before: MaterialView, after: MaterialView, elapsed: Decimal) -> Findings:
    """Yield an error if cells divide faster than their kind can, or if the stated growth does not follow from the counts."""
    shortest, kind = next(
        ((time, kind) for names, time, kind in _DOUBLING if names & (before.all_words | after.all_words)), (None, "")
    )
    own, earlier = claims.list_claims(transition, [after]), claims.list_claims(transition, [before])
    yield from _check_density(after, elapsed, earlier, own)
    old, new = _find_cells(earlier), _find_cells(own)
    if old is None or new is None or old[1] != new[1] or old[0] <= 0:
        return
    if shortest is not None and new[0] > old[0]:
        generations = min(Decimal(40), elapsed / shortest)
        maximum = old[0] * Decimal(2) ** generations * _COUNTING
        hours = units.format_value(elapsed, "duration")
        text = f"{after.name} went from {old[0]:.3g} to {new[0]:.3g} cells in {hours}, faster than {kind} divide"
        yield from require(
            "L13", new[0] <= maximum, after.name, f"at most {maximum:.3g} cells", f"{new[0]:.3g} cells", text
        )
    stated = find_term(own, _DOUBLING_TIME, ("duration",))
    known_before = find_term(earlier, _DOUBLING_TIME, ("duration",))
    if stated is not None and known_before is None and new[0] > old[0] * Decimal("1.2"):
        doublings = (new[0] / old[0]).ln() / Decimal(2).ln()
        text = f"{doublings:.2f} doublings in {units.format_value(elapsed, 'duration')} take"
        yield from compare_computed("L13", after.name, elapsed / doublings, (), stated, text, tolerance=Decimal("0.08"))
    stated_doublings = find_term(own, _DOUBLINGS)
    if stated_doublings is not None and find_term(earlier, _DOUBLINGS) is None and new[0] > old[0]:
        expected = (new[0] / old[0]).ln() / Decimal(2).ln()
        if abs(expected - stated_doublings.value) > Decimal("0.3"):
            yield from compare_computed(
                "L13", after.name, expected, (), stated_doublings, "the doublings are", tolerance=Decimal("0.1")
            )
    fold = find_term(own, _FOLD)
    if fold is not None and new[0] > old[0]:
        yield from compare_computed(
            "L13", after.name, new[0] / old[0], (), fold, "the cells grew by a factor of", tolerance=Decimal("0.05")
        )
