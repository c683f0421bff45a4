"""Read the quantities that only the name of a material states: "IgG stock, 1 mg/mL, 500 µL in 1.5 mL tube".

A name is read phrase by phrase. A volume beside a vessel is its size, any other volume is that of the content. A concentration
belongs to the words in its phrase, else to the phrase before it. Properties count first; a name only fills gaps.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from simulation.checker import chemistry
from simulation.checker.reading import units, words
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

_MAX_NAME = 300
_NUMBER = re.compile(r"(?<![\w.^/-])~?[0-9]{1,7}(?:\.[0-9]{1,5})?(?:e[+-]?[0-9]{1,2})?(?=\s?[A-Za-zµ%/])")
_UNCERTAINTY = re.compile(r"\s?(?:±|\+/-)\s?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_PHRASE_ENDS = re.compile(r"[,;()+|]|\s[-–/]\s|\swith\s")
_STRENGTH = re.compile(r"(?<![\w.:/-])([0-9]{1,3}(?:\.[0-9])?)\s?[xX×](?=[\s,;)-]|$)(?!\s?(?:[0-9]|g\b))")
_SHARE = re.compile(r"\b[wvm]\s?/\s?v\b|\bvol\b", re.IGNORECASE)
_SIZED_VESSELS = word_set(
    "tube vial flask bottle falcon eppendorf cuvette microtube cryovial cryotube cylinder jar beaker dish bag syringe column cartridge reservoir "
    "tubo matraz frasco kolben flasche fiole"
)
# "10 mL grad." and "5 mL brimful": the size of the vessel, whatever it is called.
_SIZES = word_set("grad graduated graduation brimful brim capacity nominal cap")
_NOT_CONTENT = word_set(
    "each per every wash added dead max maximum capacity from x load injection fill dilution plated spread"
)
# "over 2 mL" is a bound, "2 mL over the cells" is not.
_BOUNDS = word_set("below under above over than least most minimum min limit")
_NOT_COMPONENTS = word_set(
    "stock solution standard std working buffer sample pool aliquot in at with mark ph rest left dil dilution diluted final dry powder weighed "
    "soln sol susp p page nb lot de du des le la el los von der die das aus en dans sur each ml l µl new step tube level conc concentrated half strength"
)
_DISSOLVED = word_set("dna rna protein agarose cell gel bead virus polyacrylamide")
_NO_STRENGTH = word_set("objective magnification zoom wash wells well replicate replicates times fold")


class NameReading(NamedTuple):
    """What a name states: volume, mass, amount and number of the content, the vessel, and {words of the component: concentration}."""

    volume: Amount | None = None
    mass: Amount | None = None
    amount: Amount | None = None
    number: Amount | None = None
    container: str = ""
    concentrations: Mapping[frozenset[str], Amount] = {}


class _Phrase(NamedTuple):
    before: str  # between the last separator or number and this number
    amount: Amount
    after: str  # to the next separator or number
    earlier: str  # the phrase in front of the last separator
    whole: str  # the number with the words behind it


# "pellet ~1 µL under 1.5 mL PBS": the volume of the sediment is not that of the liquid.
_SEDIMENT = re.compile(
    r"\b(?:pellet|sediment|cake)\b[^0-9,;]{0,12}[0-9.]{1,8}\s?[mµun]?[lL]\b(?=\s(?:under|below|beneath|in|at the bottom of)\b)"
)


@lru_cache(maxsize=4096)
def read_name(name: str) -> NameReading:
    """Return the quantities of a name. A quantity that it states twice and differently is left out."""
    text = _SEDIMENT.sub("", units.normalise_text(name[:_MAX_NAME]))
    phrases = _list_phrases(_UNCERTAINTY.sub("", text))
    volumes, masses, amounts, counts, vessels = [], [], [], [], []
    concentrations: dict[frozenset[str], Amount] = {}
    nameless: list[Amount] = []
    for phrase in phrases:
        near = set(words.tokenize(phrase.after)) | set(words.tokenize(phrase.before)[-1:])
        dimension = phrase.amount.dimension
        # "matraz aforado 500 mL" and "tube 1.5 mL" have the vessel before the number.
        following = words.tokenize(phrase.after)
        # "100 µL of the preceding tube" is no size.
        beside = {*(following if "of" not in following[:2] else ()), *words.tokenize(phrase.before)[-3:]}
        # "rest of bottle 10 ml" is what the bottle holds.
        if (dimension == "volume" and set(following[:2]) & _SIZES) or (
            dimension == "volume"
            and not beside & words.REMAINDER
            # "round flask: 8.0 mL" is what the flask holds.
            and not phrase.before.rstrip().endswith(":")
            and beside & _SIZED_VESSELS
            and not set(words.tokenize(phrase.before)) & {"with", "mit", "con"}
        ):
            vessels.append(phrase.whole)
        elif (
            near & _NOT_CONTENT
            or set(words.tokenize(phrase.before)[-2:]) & _BOUNDS
            or phrase.after.lstrip().startswith("/")
        ):
            continue
        elif dimension == "volume":
            volumes.append(phrase.amount)
        elif dimension == "mass":
            masses.append(phrase.amount)
        elif dimension == "amount":
            amounts.append(phrase.amount)
        elif dimension == "count":
            counts.append(phrase.amount)
        elif dimension in units.CONCENTRATIONS and (dimension != "ratio" or _SHARE.search(phrase.amount.text)):
            component = _find_component(phrase)
            if not component and dimension != "ratio" and not nameless:
                nameless.append(phrase.amount)
            if component and component not in concentrations:
                concentrations[component] = phrase.amount
    # "Stock A, 50 µL, 10 mg/mL": the only concentration is that of the stock, whatever it is.
    if len(nameless) == 1 and not concentrations:
        concentrations[frozenset()] = nameless[0]
    for match in _STRENGTH.finditer(name[:_MAX_NAME]):
        component = _find_strength(name, match)
        if component:
            number = Decimal(match[1])
            concentrations.setdefault(component, Amount(number, "fold", number / 100, match[0]))
    return NameReading(
        volume=_find_only(volumes),
        mass=_find_only(masses),
        amount=_find_only(amounts),
        number=_find_only(counts),
        container=vessels[0] if len(vessels) == 1 else "",
        concentrations=concentrations,
    )


def _list_phrases(name: str) -> list[_Phrase]:
    phrases = []
    matches = list(_NUMBER.finditer(name))
    separators = [match.span() for match in _PHRASE_ENDS.finditer(name)]
    for index, match in enumerate(matches[:12]):
        next_number = matches[index + 1].start() if index + 1 < len(matches) else len(name)
        end = min([start for start, _ in separators if start >= match.end()] + [next_number])
        last = max([(stop, start) for start, stop in separators if stop <= match.start()], default=(0, 0))
        previous = matches[index - 1].end() if index else 0
        amount_text = name[match.start() : end].strip()
        # "2 % (w/v)": the bracket belongs to the unit.
        amount_text += name[end : end + 8] if re.match(r"\s?\(?[wvm]/v", name[end:]) else ""
        amount = units.parse_amount(amount_text.lstrip("~"), "", ("volume", "mass", *units.CONCENTRATIONS))
        if amount is None:
            continue
        unit = re.match(r"[0-9.e+-]+\s?[^\s,;()]*(?:\s?\(?[wvm]/v\)?)?", amount_text.lstrip("~"))
        after = amount_text.lstrip("~")[unit.end() :] if unit else ""
        before = name[max(last[0], previous if previous > last[0] else 0) : match.start()]
        if previous > last[0]:
            before = re.sub(r"^\s?[^\s]+", "", before)  # the unit of the number before
        earlier = re.split(r"[,;(]", name[: last[1]])[-1] if last[1] else ""
        phrases.append(_Phrase(before.strip(), amount, after.strip(), earlier.strip(), amount_text))
    return phrases


def _find_component(phrase: _Phrase) -> frozenset[str]:
    """Return the words of what a concentration belongs to, or nothing if they are unclear."""
    if phrase.amount.dimension == "number_density":
        return frozenset({"cell"})
    following = re.split(r"\bin\b|\bat\b|\bto\b|/", phrase.after)[0]
    for text in (phrase.before, following, phrase.earlier):
        component = words.content_words(text) - _NOT_COMPONENTS
        # Words like "DNA" and "agarose" are no evidence of a new ingredient, but they can be dissolved.
        component = component or frozenset(words.tokenize(text)) & _DISSOLVED
        substances = chemistry.list_substances(words.tokenize(text))
        if component and (len(component) <= 2 or substances):
            return component
    return frozenset()


def _find_strength(name: str, match: re.Match[str]) -> frozenset[str]:
    """Return the words of "10x PBS" or "PBS 10x" beside the strength, or nothing."""
    start = max((m.end() for m in _PHRASE_ENDS.finditer(name[: match.start()])), default=0)
    end = next((m.start() for m in _PHRASE_ENDS.finditer(name, match.end())), len(name))
    around = name[start : match.start()] + " " + re.split(r"\bin\b", name[match.end() : end])[0]
    found = set(words.tokenize(around))
    component = words.content_words(around) - _NOT_COMPONENTS | (found & {"buffer"} if len(found) == 1 else frozenset())
    return frozenset() if found & _NO_STRENGTH or not 0 < len(component) <= 2 else component


def _find_only(amounts: list[Amount]) -> Amount | None:
    return amounts[0] if len({amount.value for amount in amounts}) == 1 else None
