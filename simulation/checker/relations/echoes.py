"""L16: settings that a record repeats, found by their dimension and not by their name: voltages, rates, counts, times and heat."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, compare, require
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.transition import Transition

# Dimension -> actions that set it and do not measure it, so that any other value in a new text contradicts the setting.
_ECHOED = {
    "voltage": words.word_set("AgaroseGelElectrophoresis PAGE CapillaryElectrophoresis"),
    "scan_rate": words.word_set("CyclicVoltammetry"),
    "flow": words.word_set("Degas SolidPhaseExtraction FlowCytometry"),
    "pressure": words.word_set("Degas Evaporate Lyophilize"),
}
_TOLERANCE = Decimal("0.03")
_COUNTED = re.compile(
    r"(?<![\w.,-])([0-9]{1,3}) (fields?|washes|injections?|readings?|replicates?|cycles)\b(?! of| per)", re.IGNORECASE
)
_COUNT_PARAMETERS = {
    "field": {"field"},
    "cycle": {"cycle"},
    "wash": {"wash", "washe"},
    "injection": {"injection"},
    "reading": {"reading", "replicate"},
    "replicate": {"replicate", "reading"},
}
_HEATED = words.word_set("Incubate CellCultureIncubate DryingOven Autoclave Microwave")
# A temperature with one of these words is not the one that was set.
_OTHER_HEAT = re.compile(
    r"\b(?:stor\w+|kept|cool\w*|after|then|melt\w*|from|to|until|before|previous\w*|earlier|rinse\w*|room|ambient|first|freez\w*|ramp\w*|now|falling|calibrat\w*|prior|onward|back)\b",
    re.IGNORECASE,
)
_HEATING = re.compile(r"\b(?:for|during|at|dried|heated|incubat\w*|held|kept|oven|baked|autoclaved)\b", re.IGNORECASE)
_ABOUT = re.compile(r"[~≈]\s?[0-9]|\b(?:about|ca\.?|approx\w*|around|still|hot|warm|cooling)\b", re.IGNORECASE)
_TIME_AT = re.compile(
    r"([0-9]{1,4}(?:\.[0-9]{1,2})?\s?(?:h|hours?|min|minutes?|d|days?)) (?:at|@) (-?[0-9]{1,3}(?:\.[0-9])?) ?°?C",
    re.IGNORECASE,
)
_BENCH = (Decimal(15), Decimal(27))  # °C of a room
_GEL_PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9])?)\s?%")


def check_echoes(transition: Transition) -> Findings:
    """L16: yield an error if a new text gives another value than the one that was set."""
    texts = list(_iter_new_texts(transition))
    for dimension, actions in _ECHOED.items():
        if transition.action in actions:
            yield from _check_dimension(transition, dimension, texts)
    for subject, text in texts:
        yield from _check_counts(transition, subject, text)
        if transition.action in _HEATED:
            yield from _check_heat(transition, subject, text)
    yield from _check_foreign_units(transition, texts)
    if transition.action == "CyclicVoltammetry":
        yield from _check_window(transition)
    yield from _check_named_settings(transition)
    yield from _check_absorbance_labels(transition)
    if transition.action in words.GELS:
        yield from _check_gel(transition)


def _iter_new_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (subject, text) of observations and of the properties that this step wrote."""
    for seen in transition.observations:
        yield seen.path, seen.full_text[:1500]
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if leaf.value_text and leaf.value_text not in transition.input_texts:
                yield view.name, leaf.value_text


def _check_dimension(transition: Transition, dimension: str, texts: list[tuple[str, str]]) -> Findings:
    # A default of the catalogue may belong to a method that was not chosen, such as the vacuum of a degassing with helium.
    is_set = bool(transition.parameters.list_amounts(dimension))
    set_values = {amount.value for _, amount in transition.list_settings(dimension)} if is_set else set()
    known = {a.value for text in transition.input_texts for a in units.find_amounts(text, dimension)}
    for subject, text in texts if set_values else ():
        for amount in units.find_amounts(text, dimension):
            if amount.value not in known:
                nearest = min(set_values, key=lambda value: abs(value - amount.value))
                allowed = abs(nearest) * _TOLERANCE
                shown = units.format_value(nearest, dimension), units.format_value(amount.value, dimension)
                message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
                yield from compare(
                    "L16", subject, nearest, amount.value, dimension, message, allowed, allowed, shown=shown
                )


def _check_counts(transition: Transition, subject: str, text: str) -> Findings:
    for number, thing in _COUNTED.findall(text):
        names = _COUNT_PARAMETERS["wash" if thing.lower() == "washes" else thing.lower().rstrip("s")]
        leaves = [
            leaf
            for leaf in transition.parameters.leaves
            if leaf.word_set <= names | {"number", "of", "n"} and leaf.word_set & names
        ]
        values = {units.parse_number(leaf.value) for leaf in leaves} - {None}
        if len(values) == 1:
            expected = values.pop()
            message = f"the action set {expected} {thing}, but {subject} has {number}"
            yield from require(
                "L16", Decimal(number) == expected, subject, f"{expected} {thing}", f"{number} {thing}", message
            )


def _check_heat(transition: Transition, subject: str, text: str) -> Findings:
    """Yield an error if a text names the only temperature, or the time at it, that differs from what was set."""
    temperatures = transition.parameters.list_values("temperature")
    durations = transition.parameters.list_values("duration")
    stated = units.find_amounts(text, "temperature")
    if len(stated) == 1 and temperatures and not _OTHER_HEAT.search(text):
        got = stated[0].value
        # What has left the oven cools: only above the setting, or where the text is about the heating, is it the setting.
        is_cooling = (
            got < max(temperatures)
            and not subject.startswith("new_obs")
            and not (_HEATING.search(text) or units.find_amounts(text, "duration"))
        )
        is_setting = got > _BENCH[1] and got > 5 and not _ABOUT.search(text) and not is_cooling
        nearest = min(temperatures, key=lambda value: abs(value - got))
        if is_setting and nearest > _BENCH[0]:
            shown = units.format_value(nearest, "temperature"), units.format_value(got, "temperature")
            message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
            yield from compare(
                "L16", subject, nearest, got, "temperature", message, Decimal(3), Decimal(3), shown=shown
            )
    for time_text, temperature in _TIME_AT.findall(text):
        time = units.parse_amount(time_text, "", ("duration",))
        is_this_step = any(abs(value - Decimal(temperature)) <= 1 for value in temperatures)
        if time is not None and is_this_step and durations and not _OTHER_HEAT.search(text):
            nearest = min(durations, key=lambda value: abs(value - time.value))
            shown = units.format_value(nearest, "duration"), units.format_value(time.value, "duration")
            message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
            yield from compare(
                "L16", subject, nearest, time.value, "duration", message, nearest / 20, nearest / 20, shown=shown
            )


# A number with a unit that the laboratory does not have: "5 mW/mm²", "4 V/cm".
_FOREIGN_AMOUNT = re.compile(
    r"(?<![\w.,-])([0-9]{1,6}(?:\.[0-9]{1,4})?)\s?((?:[A-Za-zµ]{1,4})/(?:[A-Za-zµ]{1,4})[23²³]?)(?![\w/])"
)


def _check_foreign_units(transition: Transition, texts: list[tuple[str, str]]) -> Findings:
    """Yield an error if a text has another number than the only setting with a unit that the laboratory does not know."""
    settings: dict[str, set[Decimal]] = {}
    for leaf in transition.parameters.leaves:
        for number, unit in _FOREIGN_AMOUNT.findall(leaf.value_text):
            if not units.find_dimension(unit):
                settings.setdefault(_plain_unit(unit), set()).add(Decimal(number))
    known = {(n, _plain_unit(unit)) for text in transition.input_texts for n, unit in _FOREIGN_AMOUNT.findall(text)}
    for subject, text in texts if settings else ():
        for number, unit in _FOREIGN_AMOUNT.findall(text):
            values = settings.get(_plain_unit(unit))
            if values and (number, _plain_unit(unit)) not in known:
                holds = any(abs(value - Decimal(number)) <= value * _TOLERANCE for value in values)
                shown = f"{min(values)} {unit}", f"{number} {unit}"
                message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
                yield from require("L16", holds, subject, shown[0], shown[1], message)


_WINDOW = re.compile(
    r"\b(?:window|sweep|swept|scanned|scan|from|between|range)\b[^0-9+;-]{0,20}([+-]?[0-9.]{1,6})\s?(m?V)?\s?(?:to|->|and|bis|…|\.\.\.|/)\s?([+-]?[0-9.]{1,6})\s?(m?V)(?!/)",
    re.IGNORECASE,
)


def _check_window(transition: Transition) -> Findings:
    """Yield an error if the window of a voltammogram is not between two of the potentials that were set."""
    set_values = {a.value for leaf, a in transition.parameters.list_amounts("voltage") if "potential" in leaf.word_set}
    for seen in transition.observations if len(set_values) > 1 else ():
        for first, first_unit, second, unit in _WINDOW.findall(seen.full_text[:1500]):
            amounts = [units.parse_amount(f"{first} {first_unit or unit}"), units.parse_amount(f"{second} {unit}")]
            ends = {amount.value for amount in amounts if amount is not None}
            holds = all(any(abs(end - value) <= Decimal("0.011") for value in set_values) for end in ends)
            expected, got = f"{min(set_values):f} to {max(set_values):f} V", f"{first} to {second} {unit}"
            message = f"the action set {expected}, but the record has a window of {got}"
            yield from require("L16", holds, seen.path, expected, got, message)


def _plain_unit(unit: str) -> str:
    return unit.lower().replace("²", "2").replace("³", "3").replace("u", "µ")


# First letters of a word in the name of a setting, and words that a record has for it.
_ROLES = {
    "stimulation": "stimulation stimulus stimuli pulse flash",
    "exposure": "exposure exposed shutter",
    "injection": "injection injected",
    "purge": "purge purged sparged degassed bubbled",
    "equilibration": "equilibration equilibrated",
    "lysis": "lysis lysed",
    "annealing": "annealing annealed",
    "extension": "extension",
    "denaturation": "denaturation denatured",
    "excitation": "excitation excited",
    "emission": "emission",
    "staining": "staining stained",
    "soak": "soak soaked",
    "ramp": "ramp ramped",
    "hold": "hold held",
    "settling": "settling settled",
    "rest": "rest quiet",
    "interval": "interval spacing apart",
    "wavelength": "wavelength",
    "path": "path cuvette",
    "rotor": "rotor radius",
}
# Words of names of settings that also name other things of a record.
_COMMON = words.word_set(
    "time duration volume vol rate temperature temp value setting of for the and at in sample total final initial max min number size amount mass potential "
    "speed record frame first second wash water buffer medium tube well plate gel cell reagent transfer incubation stock step s min h °c c ml µl"
)
_ECHOED_BY_NAME = ("duration", "length", "temperature", "voltage", "flow", "rotation", "pressure", "volume")
_MEASURED = re.compile(
    r"\b(?:mean|peak|measured|observed|found|response|rise|decay|latency|maxim\w+|minim\w+|in all|half|total|left|remaining|after|until|before|retention|band|size|as|normali[sz]ed|equivalent|converted|scaled|corrected|diameter|shift|spectr\w*|scan|each of)\b"
)


def _check_named_settings(transition: Transition) -> Findings:
    """Yield an error if a record names a setting by one of its words and gives a value that no setting has."""
    settings = [
        (leaf.word_set, amount, amount.dimension)
        for leaf in transition.parameters.leaves
        if (amount := leaf.parse_amount()) is not None and amount.dimension in _ECHOED_BY_NAME
    ]
    known = {c.value for c in claims.list_claims(transition, transition.inputs)}
    for seen, found in claims.list_observed(transition) if settings else ():
        for claim in found:
            label_words = set(words.tokenize(claim.label))
            named = [
                amount
                for key_words, amount, dimension in settings
                if dimension == claim.dimension
                and (
                    (dimension != "volume" and label_words & key_words - _COMMON)
                    or any(role in key_words and label_words & set(texts.split()) for role, texts in _ROLES.items())
                )
            ]
            values = [amount.value for _, amount, dimension in settings if dimension == claim.dimension]
            if not named or claim.value in known or claim.is_approximate or _MEASURED.search(claim.label):
                continue
            is_set = any(abs(value - claim.value) <= abs(value) * _TOLERANCE + claim.step for value in values)
            shown = [units.format_value(value, claim.dimension) for value in (named[0].value, claim.value)]
            message = f"the action set {shown[0]}, but the record has {claim.text[:60]}"
            yield from require("L16", is_set, seen.path, shown[0], shown[1], message)


_ABSORBANCE_AT = re.compile(r"(?<![A-Za-z0-9])(?:A|OD|Abs|E|absorbance|Ext)[ _]?\(?([2-9][0-9]{2})\)?(?![0-9])(?!\s?/)")
_EXCITATION_EMISSION = re.compile(
    r"\b(?:ex|excitation|λex)\w*\s?/?\s?(?:em|emission|λem)\w*\s?[:=]?\s?([2-9][0-9]{2})\s?/\s?([2-9][0-9]{2})(?![0-9])",
    re.IGNORECASE,
)
_ABSORBANCE_ACTIONS = words.word_set("UsePhotospectrometer UsePlateReader TotalProteinQuantification ELISA")


def _check_absorbance_labels(transition: Transition) -> Findings:
    """Yield an error if a record gives absorbances only at wavelengths that were not set: A490 after a reading at 590 nm."""
    if transition.action not in _ABSORBANCE_ACTIONS:
        return
    texts = [leaf.value_text for leaf in transition.parameters.leaves if "wavelength" in leaf.word_set]
    set_lengths = {number for text in texts for number in re.findall(r"(?<![0-9])[2-9][0-9]{2}(?![0-9])", text)}
    for seen in transition.observations if len(set_lengths) == 2 else ():
        for pair in _EXCITATION_EMISSION.findall(seen.full_text[:1500]):
            # Filters are named by their centre, which may be some nanometres away.
            holds = all(any(abs(int(a) - int(b)) <= 15 for b in set_lengths) for a in pair)
            shown = "/".join(sorted(set_lengths)), "/".join(pair)
            message = f"the action set {shown[0]} nm, but the record is for {shown[1]} nm"
            yield from require("L16", holds, seen.path, f"{shown[0]} nm", f"{shown[1]} nm", message)
    # With a first and a last wavelength, a spectrum was recorded.
    is_scan = any({"start", "end", "scan", "range", "step"} & leaf.word_set for leaf in transition.parameters.leaves)
    known = {number for text in transition.input_texts for number in _ABSORBANCE_AT.findall(text)}
    for seen in transition.observations if set_lengths and not is_scan else ():
        stated = set(_ABSORBANCE_AT.findall(seen.full_text[:1500])) - known
        if stated:
            shown = ", ".join(sorted(set_lengths)), ", ".join(sorted(stated))
            message = f"the action set {shown[0]} nm, but the record is for {shown[1]} nm"
            yield from require(
                "L16", bool(stated & set_lengths), seen.path, f"{shown[0]} nm", f"{shown[1]} nm", message
            )


def _check_gel(transition: Transition) -> Findings:
    set_values = [
        number
        for key in ("agarose", "gel_percent")
        if (number := units.parse_number(transition.parameters.raw.get(key))) is not None
    ]
    for view in transition.outputs:
        stated = (
            _GEL_PERCENT.findall(view.name) if "gel" in view.name_words and transition.find_input(view) is None else []
        )
        if len(stated) == 1 and len(set_values) == 1:
            message = f"the action set a gel of {set_values[0]} %, but {view.name} has {stated[0]} %"
            yield from require(
                "L16", Decimal(stated[0]) == set_values[0], view.name, f"{set_values[0]} %", f"{stated[0]} %", message
            )
