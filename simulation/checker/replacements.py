"""L19: one substance, cell line or construct does not become another one in an action that changes no material."""

import re

from simulation.checker import chemistry
from simulation.checker.findings import Findings, error_finding
from simulation.checker.identity import CELL_LINES, COUNTER, TRANSIENT
from simulation.checker.reading import words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

# A token with capitals and digits names a substance, a clone or a construct; amounts, times and wells have other forms.
_NAMED_TOKEN = re.compile(r"[A-Za-z]*[A-Z][A-Za-z]*-?[0-9]+[A-Za-z]?|[A-Z]{2,}[a-z]*-?[0-9]*")
_TOKENS = re.compile(r"[^\s;:,()/=+]+")
# Words of a state or a stage; participles are added by their endings.
_STATES = word_set(
    "before after initial final fresh old new warm cold hot wet dry empty full clear turbid open closed left right upper lower top bottom rest remaining morning evening "
    "first second third last next previous today yesterday intact whole part partial start finish early late high low raw clean spent free bound ready waiting spun frozen shaken split held kept drawn taken done grown ground blown wrung settled overnight"
)
_PARTICIPLE = re.compile(r"(?:ed|ing|ado|ada|ido|ida|ados|adas|é|ée|és|ées|iert|iertes|ierte|ly)$")


def check_replacements(transition: Transition) -> Findings:
    """L19: check the words of names and properties of every material that an action keeps as it is."""
    if transition.family in (words.INERT, *words.MEASUREMENTS):
        for before, after in transition.list_kept_pairs():
            if not before.is_empty_vessel and not after.is_empty_vessel:
                yield from _check_replaced_words(transition, before, after)


def _check_replaced_words(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if one word of a name, or one code in a property, is replaced in an action that changes no material."""
    known = transition.input_words
    old, new = before.name_words, after.name_words
    if len(old) == len(new):
        changed = [(first, second) for first, second in zip(old, new, strict=True) if first != second]
        if len(changed) == 1 and all(_is_noun(word) for word in changed[0]):
            lost, gained = changed[0]
            if lost not in after.all_words and gained not in known and not _is_spelling(lost, gained):
                text = f"{after.name} was {lost} before, which {transition.action} cannot change to {gained}"
                yield error_finding("L19", after.name, lost, gained, text)
    for leaf in before.leaves:
        same = [other for other in after.leaves if other.word_set == leaf.word_set and other.value_text]
        if len(same) != 1 or leaf.word_set & TRANSIENT - {"type", "form"} or leaf.value_text == same[0].value_text:
            continue
        first, second = _TOKENS.findall(leaf.value_text), _TOKENS.findall(same[0].value_text)
        changed = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
        if (
            leaf.word_set & _MADE_OF
            and not leaf.parse_amount()
            and not _share_words(leaf, same[0])
            and not set(words.tokenize(same[0].value_text)) & known
        ):
            text = f"{leaf.key} of {after.name} was {leaf.value_text[:60]}, which {transition.action} cannot change to {same[0].value_text[:60]}"
            yield error_finding("L19", after.name, leaf.value_text[:60], same[0].value_text[:60], text)
            continue
        if len(first) != len(second) or len(changed) != 1:
            continue
        lost, gained = changed[0]
        is_noun = all(_is_noun(token.lower()) or token.isupper() for token in changed[0]) and not any(
            token[0].isdigit() for token in changed[0]
        )
        is_noun = (
            is_noun
            and (len(first) > 1 or bool(leaf.word_set & _MADE_OF))
            and _is_named_thing(lost)
            and _is_named_thing(gained)
        )
        is_code = is_noun or all(
            _NAMED_TOKEN.fullmatch(token) and not COUNTER.match(token) and not words.is_well(token)
            for token in changed[0]
        )
        if is_code and gained.lower() not in known and not _is_spelling(lost.lower(), gained.lower()):
            text = f"{leaf.key} of {after.name} had {lost} before, which {transition.action} cannot change to {gained}"
            yield error_finding("L19", after.name, lost, gained, text)


# Keys whose value is what a thing consists of.
_MADE_OF = word_set(
    "material solvent medium buffer matrix species rock mineral metal polymer resin dye stain antibody insert vector tag sensor reporter gene gas electrolyte salt substrate analyte "
    "compound drug ligand content tissue host target fluorophore marker coating source origin product clone breed"
)
_THINGS = (
    words.REAGENTS
    | CELL_LINES
    | word_set(
        "platinum gold silver copper steel carbon glassy graphite dmf nmp thf basalt granite quartz calcite apatite polystyrene polypropylene teflon nylon pvdf"
    )
)


def _is_named_thing(token: str) -> bool:
    """Return whether a token is a known substance, cell line or material, so that another one is another thing."""
    return token.lower() in _THINGS or token.lower() in chemistry.SUBSTANCE_WORDS


def _share_words(leaf: Leaf, other: Leaf) -> bool:
    first, second = ({word for word in words.tokenize(each.value_text) if len(word) > 2} for each in (leaf, other))
    return (
        not first
        or not second
        or bool(first & second)
        or any(_is_spelling(one, two) for one in first for two in second)
    )


def _is_noun(word: str) -> bool:
    return (
        len(word) >= 4
        and word.isalpha()
        and word not in _STATES
        and word not in words.GENERIC
        and not _PARTICIPLE.search(word)
    )


def _is_spelling(first: str, second: str) -> bool:
    """Return whether two words are spellings or forms of one: "basaltic" and "basalt"."""
    return (
        first in second
        or second in first
        or (first[:4] == second[:4] and first[:4].isalpha() and min(len(first), len(second)) > 5)
    )
