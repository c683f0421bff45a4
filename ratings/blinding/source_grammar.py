"""Decide whether a name in a text denotes a thing, or an agent that states something, such as a language model.

Every rule reads a window of fixed length around the name, so the time is proportional to the length of the text.
"""

import re
from typing import NamedTuple

_AHEAD, _BEHIND = 80, 60  # characters that a rule may read after and before a name
# Fixed windows keep every rule linear; an unlimited search would be quadratic for texts that repeat a name.
_NEAR, _BACK = 3, 2  # words after and before a name, in its phrase, among which a companion makes the name a thing


class NameUse(NamedTuple):
    """A name in its text, and what decides how it is read there.

    `manner` is "beside" (a thing only if one of its companions, the words in `beside`, is near), "thing" (a thing
    unless it states something), "label" (an ordinary word that is the name of a source, cast or model) or "part" (one
    word of such a name of several). `also` are verbs that the thing can have as well.
    """

    manner: str
    kind: str
    low: str
    cased: str
    start: int
    end: int
    beside: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()


_SUFFIX = (
    r"(?:[ \-_]?v?\d{1,4}(?:\.\d{1,2})?[bo]?\b|[ \-_](?:mini|large|medium|small|pro|flash|lite|nano|max|ultra|turbo|instruct"
    r"|chat|thinking|preview|plus|k\d|r|r\d|a)\b\+?){0,3}"
)
_HEDGE = (
    r"(?:(?:[a-z]{2,12}ly|already|also|again|then|first|once|itself|had|has|have|would|will|might|may|can|could|should|did"
    r"|does|was|model|ai|llm|assistant|simulator) ){0,3}"
)
_LINK = r"(?:['’]s)?(?: |-|, |, [^,.;:()\n]{2,30}, |\) ?| \([^()\n]{1,20}\) )"
# Verbs of an agent that states something.
_AGENT_VERBS = (
    r"predict(?:s|ed|ing)?|says|said|think(?:s|ing)?|thought|guess(?:es|ed)?|believe[sd]?|reckon(?:s|ed)?|hallucinate[sd]?"
    r"|answer(?:s|ed)?|claim(?:s|ed)|writes|wrote|written|reason(?:s|ed|ing)|imagine[sd]?|suggest(?:s|ed)|expect(?:s|ed)"
    r"|conclude[sd]|repl(?:y|ies|ied)|estimate[sd]?|forecast(?:s|ed)?|infer(?:s|red)|assume[sd]|simulate[sd]|opine[sd]"
    r"|state[sd]|describe[sd]|narrate[sd]?|tells|told|propose[sd]|remark(?:s|ed)|insist(?:s|ed)|comment(?:s|ed)"
    r"|speculate[sd]|anticipate[sd]|hypothesi[sz]e[sd]|calculate[sd]|compute[sd]|summari[sz]e[sd]|would have it"
)
# Verbs that an instrument or a reagent can have too: only a proper name is then an agent.
_SHARED_VERBS = (
    r"report(?:s|ed)?|gives|gave|given|returns|returned|notes|noted|observe[sd]|generate[sd]|produce[sd]|puts|respond(?:s|ed)"
    r"|lists|listed|fill(?:s|ed)|supplie[sd]|provide[sd]|model(?:s|led|ed)|determine[sd]|generat(?:es|ing)|extrapolate[sd]"
)
_THING_VERBS = r"show(?:s|ed|n)?|find(?:s)?|found|reads|yield(?:s|ed)?|indicate[sd]|recorded?|record(?:s|ed)|measure[sd]|made|makes"
_LABEL_VERBS = (
    r"predict(?:s|ed)|predictions?|says|said|think(?:s|ing)?|thought|guess(?:es|ed)?|believe[sd]?|reckon(?:s|ed)?|answered"
    r"|hallucinate[sd]?|claims|claimed|writes|wrote|reasoned|imagine[sd]?|suggests|suggested|expects|concluded|replied"
)
_NOUNS = r"predictions?|guess(?:es)?|hallucinations?|simulations?|forecasts?|reasoning"
_RESULT_NOUNS = r"outputs?|reply|replies|responses?|outcomes?|readings?|answers?|estimates?"
_AGENT_PARTICIPLES = (
    r"predicted|simulated|answered|guessed|hallucinated|imagined|generated|written|drafted|authored|composed|estimated"
    r"|calculated|computed|returned|reported|produced|narrated|described|suggested|inferred|forecast|proposed|noted|filled"
    r"|expected|assumed|claimed|concluded|modelled|modeled|created|invented|told|stated|anticipated|extrapolated"
)
_LABEL_PARTICIPLES = r"predicted|simulated|answered|guessed|hallucinated|imagined|written|drafted|authored|composed"
_STATEMENT_NOUNS = (
    r"predictions?|simulations?|guess(?:es)?|estimates?|answers?|repl(?:y|ies)|texts?|descriptions?|values?|numbers?"
)
_SPEAKER = r"ai|llm|language model|chatbot|assistant"
_HANDLED = r"(?:was|were|is|are|had been|has been) (?:then |again |gently |briefly )?"
_PROMPT_PARTICIPLES = r"asked|prompted|queried|instructed|tasked|trained|told|used|called|consulted|wrong|right|correct"

_AGENT = re.compile(rf"{_SUFFIX}{_LINK}{_HEDGE}({_AGENT_VERBS}|{_NOUNS})\b(?! to\b)")
_LABEL_AGENT = re.compile(rf"{_SUFFIX}{_LINK}{_HEDGE}(?:{_LABEL_VERBS})\b(?! to\b)")
_PROPER = re.compile(rf"{_SUFFIX}{_LINK}{_HEDGE}({_SHARED_VERBS})\b(?! to\b| by\b)")
_ANY_VERB = re.compile(rf"{_SUFFIX}{_LINK}{_HEDGE}({_AGENT_VERBS}|{_NOUNS}|{_SHARED_VERBS}|{_THING_VERBS})\b")
_MADE = re.compile(rf"{_SUFFIX}-(?:{_AGENT_VERBS}|{_SHARED_VERBS})\b")
_NOUN = re.compile(rf"{_SUFFIX}(?:['’]s)? ({_RESULT_NOUNS})\b")
_SIZE = re.compile(r"(?:[ \-]\d(?:\.\d)?)?[ \-]?\d{1,4}(?:\.\d)?b\b")
_VERSION = re.compile(r"-[345](?:\.\d)?(?:o\b|\b)")  # joined by a hyphen: "GPT-4", and not "GPT 4 U/L"
_VERSION_OUTPUT = re.compile(rf"[ \-]v?\d+(?:\.\d+)*{_SUFFIX} (?:outputs?|reply|model)\b")
_ITS_MODEL = re.compile(rf"['’]s (?:own |new |latest )?(?:model|{_SPEAKER})\b")
_AS_SPEAKER = re.compile(rf" (?:{_SPEAKER})\b")
_MAKERS_MODEL = re.compile(rf"(?:['’]s)? (?:[a-z0-9.\-]{{1,12}} )?(?:model|api|{_SPEAKER})\b")
_LARGER = re.compile(r"[ \-](?:Large|Pro|Flash|Lite|Ultra|Nano|Medium|Instruct|Turbo|Thinking|Preview)\b")
_DECIMAL = re.compile(
    r" \d{1,2}\.\d\b(?! ?(?:[µu]?[mlg]|ml|mm|mg|nm|kg|cm|kv|u|iu|x|%)\b)"
)  # "Opus 4.1", and not "OPUS 7.5"
_COLON = re.compile(rf"{_SUFFIX} ?[:=](?=\s)")
_ENDS = re.compile(rf"{_SUFFIX}[\"'”’]?\s*(?:[.,;:!?()\[\]\n]|$)")

_AS = re.compile(r"\b(?:as|like|than|what) (?:the )?$")
_ACCORDING = re.compile(r"(?:\baccording to|\bas told by|\b(?:asked|prompted|ask|prompt|queried))(?: the)? ?$")
_BY = re.compile(rf"\b(?:{_AGENT_PARTICIPLES})(?: [a-z]{{1,12}})? by:? (?:the |an? )?$")
_LABEL_BY = re.compile(rf"\b(?:{_LABEL_PARTICIPLES}) (?:by|with):? (?:the )?$")
_WITH = re.compile(
    rf"\b(?:{_AGENT_PARTICIPLES}|taken|obtained|simulation|prediction)(?: [a-z]{{1,12}})? (?:with|w/|using|via|from|through|per|in|by):? (?:the )?$"
)
_THING_OF = re.compile(
    rf"\b(?:{_STATEMENT_NOUNS})(?: (?:taken|supplied|given|made|generated|provided))?(?: is| was)? (?:by|from|via|per|using) (?:the )?$"
)
_OF = re.compile(
    r"\b(?:predictions?|simulations?|guess(?:es)?|estimates?|hallucinations?|outputs?|answers?) of (?:the )?$"
)
_PREPOSITION = re.compile(r"\b(?:by|per|via|using|from|with) (?:the )?$")
_PER = re.compile(r"(?:^|[ (\[])per (?:the )?$")
_SOLD = re.compile(
    r"\b(?:sold|bought|shipped|delivered|supplied|made|manufactured|distributed|built) (?:by|from|via) (?:the )?$"
)
_FIELD = re.compile(
    r"\b(?:source|(?:language |ai )?model|engine|simulator|author|provider|origin|backend|generator|agent|writer|cast|llm|by|via)"
    r"s? ?[:=] ?[\"'“(]?(?:the )?$"
)
_TOLD_FIELD = re.compile(
    r"\b(?:(?:language |ai )?model|simulator|author|backend|agent|writer|cast|llm|by) ?[:=] ?[\"'“(]?(?:the )?$"
)
_BEGINS = re.compile(r"(?:^|[.;!?\n]\s*)[\"'“(\[]?$")
_ALONE = re.compile(r"[(\[][\"'“]?$")
_CAST = re.compile(r" (?:cast|simulat(?:or|ions?)|rules|lapses)\b")
_PART = re.compile(r"(?:['’]s)?[ \-]?(?:sim|simulator|simulations?|model|output|run|cast|reading)\b")
_OZONE = re.compile(r"\b(?:ozone|oxygen) [(\[]$")

_CLAUSE_END = re.compile(r"[.:;!?](?=\s|$)|[,()\[\]\n\"“”]")
_WORD = re.compile(r"[^\W_]+")
# Units between a name and its companion belong to the number, so they are not counted as words.
_UNIT = re.compile(r"ml|ul|µl|l|um|µm|mm|cm|nm|m|g|mg|kg|a|kv|v|u|iu|x|h|min|s|k")
# After one of these words a new phrase begins, so a companion behind it belongs to something else.
_LOOSE_WORD = re.compile(
    r"a|an|the|this|that|of|in|on|onto|into|for|at|to|from|with|by|via|and|or|but|as|is|was|were|are|be|been|has|had"
    r"|have|did|does|will|would|then|than|which|who|it|its|after|before|per|using|because"
)


def is_agent(use: NameUse) -> bool:
    """Return whether the name here denotes a source, such as an agent that states something, and not a thing."""
    # Small letters for the words, the original spelling where capitals decide.
    before, after = use.low[max(0, use.start - _BEHIND) : use.start], use.low[use.end : use.end + _AHEAD]
    if use.manner in ("label", "part"):
        return _is_label_agent(use, before, after)
    # These forms occur with agents only, so they are decided before any companion is considered.
    if _SIZE.match(after) or _ACCORDING.search(before) or _BY.search(before) or _ITS_MODEL.match(after):
        return True
    if _VERSION_OUTPUT.match(after) or _AS_SPEAKER.match(after) or (_AS.search(before) and _ANY_VERB.match(after)):
        return True
    # The thing itself can have some of the verbs: "GLM predicted means" is statistics.
    if (verb := _AGENT.match(after)) and verb[1] not in use.also:
        return True
    return _is_agent_beside(use, before, after) if use.manner == "beside" else _is_thing_agent(use, before, after)


def _is_agent_beside(use: NameUse, before: str, after: str) -> bool:
    if _VERSION.match(after) or _NOUN.match(after) or _PROPER.match(after) or _MADE.match(after):
        return not (_NOUN.match(after) and _has_companion_after(use, after, 1))
    if _LARGER.match(use.cased[use.end : use.end + _AHEAD]) or _FIELD.search(before) or _WITH.search(before):
        return True
    # "Opus 4.1" and not "OPUS 7.5": a version is written after a title, a measurement after an abbreviation.
    if _DECIMAL.match(after) and use.cased[use.start : use.end].istitle():
        return True
    if colon := _COLON.match(after):
        return not _has_measurement(use, after[colon.end() :])
    if _has_companion_after(use, after) or _has_companion_before(use, before):
        return False
    # An article and small letters make it an ordinary noun: "an opus".
    if re.search(r"\ban? $", before) and use.cased[use.start : use.end].islower():
        return False
    handled = re.match(rf"s? {_HANDLED}([a-z]{{3,}})", after)
    # What is handled is a thing, unless the verb is one that people use with models.
    return not (handled and not re.fullmatch(_PROMPT_PARTICIPLES, handled[1]))


def _is_thing_agent(use: NameUse, before: str, after: str) -> bool:
    if _TOLD_FIELD.search(before) or (_FIELD.search(before) and _ENDS.match(after)):
        return True
    is_maker = use.kind == "maker"
    if not _is_proper_name(use):
        return False
    if is_maker and (
        _MAKERS_MODEL.match(after) or (_PREPOSITION.search(before) and _ENDS.match(after) and not _SOLD.search(before))
    ):
        return True
    if _PROPER.match(after) or _MADE.match(after) or _WITH.search(before) or _THING_OF.search(before):
        return True
    if _PER.search(before) and _ENDS.match(after):
        return True
    # "o3" and "4o" look like quantities or ozone, so they need further evidence.
    is_lower_o = use.cased[use.start : use.start + 1] in ("o", "4")
    if (is_lower_o or is_maker) and _BEGINS.search(before) and _COLON.match(after):
        return True
    if not is_lower_o:
        return False
    is_alone = _ALONE.search(before) and re.match(r"[\"'”]?[)\]]", after) and not _OZONE.search(before)
    return bool(
        is_alone or _OF.search(before) or (_PREPOSITION.search(before) and _ENDS.match(after)) or _NOUN.match(after)
    )


def _is_label_agent(use: NameUse, before: str, after: str) -> bool:
    if _LABEL_AGENT.match(after) or _ACCORDING.search(before) or _LABEL_BY.search(before) or _TOLD_FIELD.search(before):
        return True
    if _FIELD.search(before) and _ENDS.match(after):
        return True
    if use.kind in ("cast", "source") and (_CAST.match(after) or re.search(r"\bcast $", before)):
        return True
    return use.manner == "part" and bool(_PART.match(after))


def _is_proper_name(use: NameUse) -> bool:
    """Return whether the text writes the name as a proper name: "o3" and not "O3", "Granite" and not "granite"."""
    written = use.cased[use.start : use.end]
    if any(sign.isdigit() for sign in written):  # only "o3" and "4o" are written in small letters by their makers
        return written[0] in "o4"
    # Four or more capitals are usually an abbreviation of the laboratory.
    return written[:1].isupper() and (len(written) < 4 or not written.isupper())


def _has_companion_after(use: NameUse, after: str, max_words: int = _NEAR) -> bool:
    """Return whether a companion follows in the same phrase. Numbers and units in between are not counted as words."""
    words, end = 0, _CLAUSE_END.search(after)
    for match in _WORD.finditer(after[: end.start()] if end else after):
        word = match[0]
        if word in use.beside:
            return True
        # The unit "a" (ampere) is also an article; a unit does not end the phrase.
        if _LOOSE_WORD.fullmatch(word) and not _UNIT.fullmatch(word):
            return False
        if not word[0].isdigit() and not _UNIT.fullmatch(word):
            words += 1
        if words == max_words:
            return False
    return False


def _has_companion_before(use: NameUse, before: str) -> bool:
    ends = [match.end() for match in _CLAUSE_END.finditer(before)]
    phrase = before[ends[-1] :] if ends else before
    for word in reversed(_WORD.findall(phrase)[-_BACK:]):
        if word in use.beside or _LOOSE_WORD.fullmatch(word):
            return word in use.beside
    return False


def _has_measurement(use: NameUse, after: str) -> bool:
    """Return whether a number follows with a unit in which the thing is measured: "GPT: 35 U/L"."""
    number = re.match(r"\s*[\d.,]+\s*", after)
    if number is None:
        return False
    # 8 characters: a unit such as "U/L" directly behind the number.
    return any(word in use.beside for word in _WORD.findall(after[number.end() : number.end() + 8]))
