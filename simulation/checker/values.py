"""L10 to L12 and L22 to L24: form of the outcome, text that must not be in it, units, and the range of quantities."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from simulation.checker.findings import Decided, Finding, Findings, error_finding, require, warning_finding
from simulation.checker.reading import claims, properties, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.words import word_set
from simulation.lab.materials import AVAILABILITY, CONDITIONS, MATERIAL_TYPES
from simulation.lab.outcomes import MEASUREMENT_TYPES, NOTE

PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)
_PH_READING = re.compile(
    r"(?:(?:ph|readings?|mean|median|value|result|r[0-9]|average|#|single|runs?) ?){1,4}", re.IGNORECASE
)
# Properties and readings that are a share of a whole.
_PERCENT = word_set(
    "viability confluence confluency purity humidity co2 efficiency positive fraction identity homology coverage saturation"
)
# Dimensions, by their names in simulation.lab.quantities. Voltages, for example, may be negative.
_NEVER_NEGATIVE = word_set(
    "volume mass amount mass_concentration molar_concentration number_density count base_pairs duration rotation centrifugal_force"
)
# A negative number at the start of a value, with a unit that cannot be negative.
_NEGATIVE = re.compile(
    r"(?<![\w.)%])-\s?[0-9]{1,12}(?:\.[0-9]{1,9})?\s?(mAU\W?\w?|cells|events|particles|colonies|counts?|bp|µS|mS|mOsm|cP|bands?)?"
)
# At most 4 g of a substance fit in a millilitre; pure water has 55.5 mol/L.
_MAX_DENSITY = Decimal(22_700_000)  # µg/mL; osmium has 22.6 g/mL
_MAX_CONCENTRATION = {"mass_concentration": Decimal(4_000_000), "molar_concentration": Decimal(60_000_000)}
_MAX_TEMPERATURE = Decimal(400)  # °C; about the upper limit of melting point instruments
_MIN_TEMPERATURE = Decimal("-273.15")  # °C, absolute zero
_DIFFERENCES = word_set("difference delta drop change fall rise shift offset")
# Measurements whose readings are never negative.
_POSITIVE_ONLY = word_set(
    "HPLC CellCounter FlowCytometry MeasureVolume MeasureWeight NucleicAcidQuantification TotalProteinQuantification MeasureOsmolality "
    "MeasureConductivity MeasureViscosity MeasureDensity MeasureCount QuantifyColonies CoulterCount CountLiquidParticles qPCR MeasureSurfaceTension "
    "MeasureRefractiveIndex MassSpectrometry MeasurepH MeasureDissolvedOxygen"
)
# A barcode reveals which materials belong together, and prompt text reveals the source: both would unblind raters.
_TOKEN = re.compile(r"[A-Za-z0-9-]{4,20}")
# A code of letters and digits mixed, which is no name of a well or lane: "pw7d", "q71k".
_SHORT_CODE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])(?![A-Za-z]{1,2}-?[0-9]{1,2}$)[A-Za-z0-9-]{4,5}")
_CODE = re.compile(r"\bMAT-[A-Z0-9]{4,12}\b")
# Phrases of simulator prompts, of instructions to plant an error, and of the JSON that models reply with.
_PROMPT_PHRASES = re.compile(
    r"SECRET\s*:|\bSECRET\b|error[_ ]type|BE SNEAKY|subtly (?:false|wrong|incorrect)|deliberately (?:wrong|false|incorrect)|"
    r"why the transition is|CRITICAL CONSTRAINTS|scientific experiment simulator|system prompt|as an AI\b|language model|"
    r"\btype[\s_-]?(?:[12]|I{1,2}|one|two)[\s_-]errors?\b|\b(?:the|this|our|a) simulator\b|\bsimulator (?:note|instruction|should|must|introduces|adds|output)|\b(?:planted|injected|inserted|hidden|intentional|deliberate) (?:error|mistake|flaw|inconsistency)|"
    r"\b(?:agent|rater|reviewer|evaluator|annotator|expert|grader|judge)s? (?:should|must|may|will|can|does|do|is|are)(?: not| n[o']t)? (?:notice|see|know|detect|find|spot|be told|meant|supposed|aware)|"
    r"\bwithout (?:the )?(?:agent|rater|reviewer|evaluator|expert|reader)s? noticing|\b(?:according to|per|as per|following) (?:the |my |your )?(?:system message|prompt)\b|\bground[- ]truth (?:label|value|state|answer)|"
    r"\b(?:JSON|output) (?:schema|format) (?:requires|above|as instructed)|\bI (?:will|have|was asked to|must|should) (?:now )?(?:introduce|insert|plant|make|include) (?:an? )?(?:subtle |small |obvious )?(?:error|mistake|flaw)|"
    r"\b(?:introduce|insert|plant|inject|seed|include) (?:an? |one |two |the |some )(?:(?:subtle|small|obvious|single) )?(?:wrong|false|incorrect|erroneous|implausible|inconsistent|impossible) |"
    r"\b(?:introduc\w+|insert\w+|plant\w+) (?:an? |the )?(?:subtle |small |obvious |type.{0,6})?(?:error|mistake|falsehood)|"
    r"\b(?:user|assistant|system) (?:prompt|message|turn)\b|<\|?(?:im_start|im_end|system|assistant|endoftext)\|?>|\bmust not reveal\b|\bdo not (?:reveal|tell|mention|disclose)\b[^.;]{0,30}\b(?:error|truth|agent|user)|"
    r"(?:injected|planted|inserted|seeded|deliberate|intended)[_ -]?(?:error|fault|mistake|anomaly)\b|\berror[_ ](?:injected|planted|inserted|seeded|category|label|flag|to plant)|\bis_?(?:erroneous|implausible|incorrect|wrong|planted|fake)\b|"
    r"\bground_truth\b|\bhidden[_ ](?:truth|label|state|instructions?)\b|\bhidden from (?:the )?(?:participant|expert|rater|reviewer|agent|reader|user|human)s?\b|\b(?:was|were|is|been) (?:deliberately |intentionally |purposely )?(?:falsified|fabricated|tampered with|made up)\b|"
    r"\b(?:altered|changed|modified|corrupted) (?:one|a|the|this) (?:single )?(?:value|number|quantity|amount|detail)\b[^.;]{0,60}\b(?:implausible|wrong|incorrect|error|inconsistent|plausible)\b|\bas (?:requested|instructed|asked|told|required) (?:in|by) (?:the |your )?(?:task|prompt|system|user|instructions?)\b|"
    r"\b(?:implausible|wrong|incorrect|inconsistent) (?:on purpose|by design|as instructed|as requested)\b|\bintentional(?:ly)? (?:wrong|incorrect|inconsistent|implausible|error|mistake)|\bfor the (?:rater|evaluator|grader|judge|annotator)s?\b|"
    r"\b(?:test|check|see|probe)\w* (?:whether|if) (?:the|a|an|any) (?:checker|rater|agent|expert|reviewer|model|participant|reader)s?\b|\[(?:SYSTEM|ASSISTANT|USER|INST)\]|\bJSON (?:format|schema|object|reply|response|output)\b|"
    r"state management system|Respond in this JSON|not_available_for_further_use|available_for_use\b|new_materials\b|INCORRECT_TRANSITION",
    re.IGNORECASE,
)
_FOREIGN_PROMPT_PHRASES = re.compile(
    r"\b(?:Fehler|erreurs?|error(?:es)?|errore)\b[^.;]{0,40}\b(?:eingebaut|eingefügt|versteckt|absichtlich|ajoutée?|insérée?|introduite?|volontaire|introducid[oa]s?|insertad[oa]s?|deliberad[oa]s?|inserit[oa]|intenzional\w*)\b|"
    r"\b(?:absichtlich|bewusst|volontairement|deliberadamente|intencionadamente|a propósito)\b[^.;]{0,20}\b(?:falsch\w*|faux|fausse|erronée?|incorrect[oae]s?|equivocad[oa]s?|fehlerhaft\w*)\b|"
    r"\b(?:für den Prüfer|für die Gutachter|pour l'évaluateur|para el evaluador|Fehler vom Typ|erreur de type|error de tipo)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:differen\w+|chang\w+|drift\w*|shift\w*|loss|gain\w*|net|minus|delta|drop\w*)\b|Δ", re.IGNORECASE
)
_UNCHANGED_BY_FAILURE = ("properties", "available_for_use", "environmental_condition", "material_type")
# Texts that simulators write instead of null.
_NO_REASON = frozenset({"", "none", "n/a", "na", "null", "-", "no", "not applicable"})


def check_ranges(transition: Transition) -> Findings:
    """L23: check the range of every property of an output and of every observation."""
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _check_property_range(view, leaf)
    for seen in transition.observations:
        yield from _check_observation(transition, seen)


def _check_property_range(view: MaterialView, leaf: Leaf) -> Findings:
    key_words, number, amount = leaf.word_set, units.parse_number(leaf.value), leaf.parse_amount()
    if number is None:
        return
    name, shown = view.name, leaf.value_text[:40]
    text = f"{leaf.key} of {name} is {shown}"
    if "ph" in key_words and len(key_words) <= 2 and not key_words & {"meter", "probe"}:
        yield from require("L23", 0 <= number <= 14, name, "0 to 14", shown, text)
    if amount is not None:
        if amount.dimension == "temperature" and properties.is_temperature(leaf):
            yield from _check_temperature_range(name, amount.value, text)
        elif amount.dimension == "temperature" and not key_words & _DIFFERENCES:
            holds = amount.value >= _MIN_TEMPERATURE
            yield from require("L23", holds, name, f"at least {_MIN_TEMPERATURE} °C", shown, text)
        if amount.dimension in _NEVER_NEGATIVE and amount.value < 0:
            yield error_finding("L23", name, "zero or more", shown, text)
        maximum = _MAX_CONCENTRATION.get(amount.dimension)
        if "density" in key_words and amount.dimension == "mass_concentration":
            maximum = _MAX_DENSITY
        if maximum is not None and amount.value > maximum:
            expected = f"at most {units.format_value(maximum, amount.dimension)}"
            yield error_finding("L23", name, expected, shown, f"{text}, which is more than fits in that volume")
    is_ratio = amount is not None and amount.dimension == "ratio"
    # A bare "95" is a percentage; a bare number up to 1 may be a fraction, which needs no check.
    is_bare = number > 1 and not leaf.unit and leaf.value_text.strip().replace(".", "").isdigit()
    if key_words & _PERCENT and (is_ratio or is_bare):
        yield from require("L23", 0 <= number <= 100, name, "0 to 100 %", shown, text)


def _check_temperature_range(subject: str, value: Decimal, text: str) -> Findings:
    expected, got = f"{_MIN_TEMPERATURE} to {_MAX_TEMPERATURE} °C", units.format_value(value, "temperature")
    yield from require("L23", _MIN_TEMPERATURE <= value <= _MAX_TEMPERATURE, subject, expected, got, text)


def _check_observation(transition: Transition, seen: ObservationView) -> Findings:
    values = [Decimal(match[1]) for match in PH.finditer(seen.full_text[:2000])]
    number_parts = units.split_number(seen.value)
    if transition.action in ("MeasurepH", "AdjustpH") and re.search(r"\bpH\b", seen.description):
        values += [number_parts[0]] if number_parts and not number_parts[2].strip(" ,.;pPH0123456789") else []
    if transition.action in ("MeasurepH", "AdjustpH") and re.search(r"\bpH\b", seen.description):
        # Readings under general names, one below another: {"readings": [7.1, 7.2], "mean": 7.15}.
        values += [
            c.value
            for c in claims.read_observation(seen)
            if not c.dimension and _PH_READING.fullmatch(c.own_label.strip())
        ]
    for value in values:
        yield from require("L23", 0 <= value <= 14, seen.path, "pH 0 to 14", str(value), f"a pH of {value} was read")
    is_negative = False
    # The parts of a value are separated by commas or semicolons.
    amounts = (units.parse_amount(part) for part in re.split(r"[,;]\s", seen.value[:1000]))
    for amount in filter(None, amounts):
        text, shown = f"{amount.text[:40]} was read", amount.text[:40]
        if amount.dimension == "temperature":
            yield from _check_temperature_range(seen.path, amount.value, text)
        is_share = amount.dimension == "ratio" and set(words.tokenize(seen.description)) & _PERCENT
        if is_share and not 0 <= amount.value <= 100:
            yield error_finding("L23", seen.path, "0 to 100 %", shown, f"{text}, which is not between 0 and 100 %")
        if amount.dimension in _NEVER_NEGATIVE and amount.value < 0 and not _is_measuring_noise(amount.text):
            is_negative = True
    # The difference of two readings may be negative.
    has_negative_number = (
        transition.action in _POSITIVE_ONLY
        and _NEGATIVE.match(seen.value.strip())
        and not _is_measuring_noise(seen.value)
    )
    is_change = _CHANGE.search(seen.description)
    if (is_negative or has_negative_number) and not is_change:
        shown = seen.value[:40]
        yield error_finding("L23", seen.path, "zero or more", shown, f"{shown} was read, which is below zero")


def _is_measuring_noise(text: str) -> bool:
    """Return whether a reading is negative only by noise. With a blank subtracted it may be slightly below zero."""
    number_parts = units.split_number(text)
    if number_parts is None or abs(number_parts[0]) >= 1 or units.normalise_text(text).lstrip()[:2] != "-0":
        return False
    is_concentration = "L" in text and "/" in text
    # Without a unit it is a signal, from which a blank was subtracted.
    if not number_parts[2].strip() and abs(number_parts[0]) <= Decimal("0.1"):
        return True
    # Four times half a unit of the last digit is two units, by which the display of a balance may fluctuate.
    return is_concentration or abs(number_parts[0]) <= min(4 * number_parts[1], Decimal("0.002"))


_CORRELATION = re.compile(
    r"(?:\br\s?(?:\^?2|²|squared)|\bcorrelation(?: coefficient)?|\bcircularity|\bp[- ]?value)\s?(?:=|:|of|is)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,6})?)(?![0-9]|\s?%)",
    re.IGNORECASE,
)
_R_SQUARED = re.compile(
    r"(?:^|\s)r\s?\^?2(?:\s|$)|\bcorrelation coefficient\b|\bcoefficient of determination\b|\bbestimmtheitsmass\b"
)
_WHOLE = re.compile(
    r"(?<![\w.,~≈])(?<!mean )(?<!average )(?<!of )([0-9]{1,5}\.[0-9]*[1-9])[ \t](colonies|larvae|fish|embryos|tubes|wells|lanes|animals|vials|plates)\b",
    re.IGNORECASE,
)
_AVERAGED = re.compile(r"\bmean\b|\baverage\b|\bper\b|\bmedian\b", re.IGNORECASE)
_SHARE_NAMES = re.compile(
    r"\b(?:%|share|fraction|portion|proportion|percentage|percent)? ?of (?:the |its |each |all )?(?:\w+ )?(?:face|surface|area|chip|field|image|well|slide|section|sample|cells|colonies|patches|plate|wells|total|whole|sum|reads|bases|sequence|animals|fish|larvae|events|parent|population|gate|signal|lane|volume|mass|membrane|parents?|singlets|live)\b|"
    r"\b(cover(?:ed|age|s)?|stained|cobertura|couverture|deckung\w*|bedeck\w*|bedeckung|anteil|area fraction|occupied|share|fraction|proportion|porcentaje|pourcentage|teñida|proporcion|viability|confluen(?:ce|cy)|humidity|purity|transduction|infected|positive|survival|coverage|identity|cleavage|cleaved)\b",
    re.IGNORECASE,
)


def check_recorded_values(transition: Transition) -> Findings:
    """L23: yield an error if a record has a correlation above 1, a share above 100 % or a part of a whole thing."""
    # An isolate, reactor or replicate may be called R2.
    is_name = any("r2" in view.all_words for view in transition.inputs)
    for seen, found in claims.list_observed(transition):
        text = seen.full_text[:1500]
        for number in _CORRELATION.findall(text):
            yield from require(
                "L23",
                -1 <= Decimal(number) <= 1,
                seen.path,
                "at most 1",
                number,
                f"a coefficient of {number} is above 1",
            )
        for claim in found:
            if (
                not is_name
                and claim.dimension == ""
                and _R_SQUARED.search(claim.label)
                and Decimal("1.0005") < abs(claim.value) < 100
            ):
                yield error_finding(
                    "L23", seen.path, "at most 1", str(claim.value), f"a coefficient of {claim.value} is above 1"
                )
        if not _AVERAGED.search(text):
            for number, things in _WHOLE.findall(text):
                yield error_finding(
                    "L23", seen.path, "a whole number", f"{number} {things}", f"{number} {things} were counted"
                )
        for claim in found:
            if (
                claim.dimension == "ratio"
                and _SHARE_NAMES.search(claim.label)
                and not re.search(
                    r"\bchange\b|\bchanges\b|\brecover\w*|\byield\b|\bfold\b|\bfactor\b|\brise\b|\bgain\b|\bgrowth\b|\bintensity\b|\bexpression\b|\bactivity\b|\bsignal of\b|\bnormali[sz]ed\b|\bincrease\b|\brelative\b|\bcontrol\b|\bof (?:the )?(?:mock|untreated|baseline|start)",
                    claim.label,
                )
            ):
                text = f"{claim.text} is more than the whole"
                yield from require(
                    "L23", 0 <= claim.value <= Decimal("100.5"), seen.path, "0 to 100 %", f"{claim.value} %", text
                )


def find_prompt_phrases(text: str) -> frozenset[str]:
    """Return the phrases of a text that can only come from a prompt or a planted error, in lower case with single spaces."""
    return frozenset(" ".join(found[0].casefold().split()) for found in _PROMPT_PHRASES.finditer(text))


def check_barcodes(transition: Transition) -> Findings:
    """L10: yield warnings of barcodes that agents and raters would read."""
    yield Decided("L10")
    # A shorter barcode may be a word or a number that is in a text by chance.
    barcodes = {view.barcode for view in transition.inputs if len(view.barcode) >= 6}
    known = {word for text in transition.input_texts for word in _TOKEN.findall(text)}
    short = {view.barcode for view in transition.inputs if _SHORT_CODE.fullmatch(view.barcode)} - known
    for path, text in iter_visible_texts(transition):
        if _CODE.search(text) or any(code in text for code in barcodes) or short & set(_TOKEN.findall(text)):
            yield warning_finding("L10", path, "no barcode", "a barcode", f"{path} contains a barcode")


def check_prompt_text(transition: Transition) -> Findings:
    """L24: yield warnings of prompt text that agents and raters would read."""
    yield Decided("L24")
    for path, text in iter_visible_texts(transition):
        if _PROMPT_PHRASES.search(text) or _FOREIGN_PROMPT_PHRASES.search(text):
            message = f"{path} contains text of a prompt or of a planted error"
            yield warning_finding("L24", path, "no prompt text", "prompt text", message)


def check_enumerations(transition: Transition) -> Findings:
    """L11: yield a finding if a field is missing or has a value that is not allowed. Other spellings are accepted."""
    yield Decided("L11")
    for view in transition.outputs:
        raw, path = view.raw, view.path
        if not isinstance(raw.get("name"), str) or not view.name.strip():
            yield _field_error(path, "text", raw.get("name"), f"{path} has no name")
        if not isinstance(raw.get("properties", {}), dict):
            yield _field_error(path, "an object", raw["properties"], f"the properties of {path} are not an object")
        material_type = words.parse_material_type(raw.get("material_type"))
        for field, member, allowed in (
            ("available_for_use", view.availability, AVAILABILITY),
            ("material_type", material_type, MATERIAL_TYPES),
            ("environmental_condition", view.condition, CONDITIONS),
        ):
            if member and _is_foreign_value(transition, field, raw.get(field), allowed):
                text = f"{field} is {_describe_value(raw[field])}, but the other materials have values of the list"
                yield _field_error(path, member, raw[field], text)
            elif not member:
                yield _check_member(transition, path, field, raw.get(field), ", ".join(allowed))
    for seen in transition.observations:
        kind, expected = seen.raw.get("measurement_type"), ", ".join(MEASUREMENT_TYPES)
        if not isinstance(kind, str) or not kind.strip() or len(kind) > 60:
            yield _field_error(seen.path, expected, kind, f"measurement_type is {_describe_value(kind)}")
        elif kind.strip().lower() not in (*MEASUREMENT_TYPES, NOTE):
            text = "measurement_type is none of the four kinds"
            yield warning_finding("L11", seen.path, expected, _describe_value(kind), text, decidable=False)
        if not isinstance(seen.raw.get("description"), str):
            yield _field_error(seen.path, "text", seen.raw.get("description"), f"{seen.path} has no description")
    success = transition.outcome.get("success")
    if not isinstance(success, bool):
        yield _field_error("success", "true or false", success, "success is neither true nor false")


def _is_foreign_value(transition: Transition, field: str, value: Any, allowed: tuple[str, ...]) -> bool:
    """Return whether a value is a synonym where all other materials of the transition have values of the closed list.

    A simulator with a spelling of its own has it for several materials; a word in one of many breaks its own list.
    """
    values = [view.raw.get(field) for view in (*transition.inputs, *transition.outputs)]
    foreign = [other for other in values if other not in allowed]
    is_spelling = isinstance(value, str) and any(_plain(value) == _plain(member) for member in allowed)
    return foreign == [value] and len(values) > 2 and not is_spelling


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())


def _field_error(path: str, expected: str, value: Any, text: str) -> Finding:
    return error_finding("L11", path, expected, _describe_value(value), text)


def _check_member(transition: Transition, path: str, field: str, value: Any, allowed: str) -> Finding:
    # A simulator that never writes this field has another format, which is not an error of the step.
    views = (*transition.inputs, *transition.outputs)
    if value is None and not any(isinstance(view.raw.get(field), str) for view in views):
        return warning_finding("L11", path, allowed, "nothing", f"{field} is missing")
    return _field_error(path, allowed, value, f"{field} is {_describe_value(value)}")


def check_coherence(transition: Transition) -> Findings:
    """L22: yield an error if a success has a failure reason or no result, or a failure has no reason or a result."""
    yield Decided("L22")
    reason, action = transition.outcome.get("failure_reason"), transition.action
    has_reason = isinstance(reason, str) and reason.strip().lower().rstrip(".") not in _NO_REASON
    success = transition.outcome.get("success")
    if success is True and has_reason:
        text = "the action succeeded, but a reason for failure is given"
        yield error_finding("L22", "failure_reason", "none", "a reason", text)
    if success is False and not has_reason:
        text = "the action failed, but no reason is given"
        yield error_finding("L22", "failure_reason", "a reason", "none", text)
    has_result = transition.outputs or transition.observations
    if success is True and not has_result and transition.family not in (words.CONTROL, words.UNKNOWN):
        text = f"{action} succeeded, but led to neither materials nor observations"
        yield error_finding("L22", action, "materials or observations", "nothing", text)
    for output in transition.outputs if success is False else ():
        before = transition.find_input(output)
        if before is None or any(before.raw.get(key) != output.raw.get(key) for key in _UNCHANGED_BY_FAILURE):
            text = f"the action failed, but {output.name} is new or changed"
            yield error_finding("L22", output.name, "nothing changed", "a new or changed material", text)


def iter_visible_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of everything in the outcome that agents and raters read. The reasoning is not part of it."""
    for view in transition.outputs:
        yield f"{view.path}.name", view.name
        for leaf in view.leaves:
            yield f"{view.path}.properties", f"{leaf.key}: {leaf.value_text}"
    for seen in transition.observations:
        yield seen.path, seen.full_text[:4000]
    reason = transition.outcome.get("failure_reason")
    if isinstance(reason, str):
        yield "failure_reason", reason[:4000]


def _describe_value(value: Any) -> str:
    if value is None:
        return "missing"
    return repr(value)[:40] if isinstance(value, str | bool | float) else type(value).__name__
