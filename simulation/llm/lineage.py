"""Resolve which inputs the aliases and barcodes of a reply refer to, and which input each new material continues."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.lab.materials import UNLIMITED, Material, NewMaterial
from simulation.llm.reply_fields import LONGEST_NAME, MOST_MATERIALS, ParseNotes
from simulation.llm.reply_text import normalise_text, quote_short

_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_WRITTEN = rf"MAT[{_DASHES}_]([A-Z0-9]{{8}})"
BARCODE = re.compile(_WRITTEN, re.IGNORECASE)
BRACKETED = re.compile(rf"\s?\({_WRITTEN}\)", re.IGNORECASE)
ALIAS = re.compile(r"\bS([1-9]\d{0,2})\b")

_LONE = re.compile(rf"(?<![A-Za-z0-9]){_WRITTEN}(?![A-Za-z0-9])", re.IGNORECASE)
# Contexts in which an alias is a separate word, and not part of a name such as "Standard S1" or "S1 nuclease".
_BEFORE = re.compile(r"(?:^|[,;:(\[/+&]|\b(?:and|by|for|from|in|into|of|or|plus|to|with))\s*$", re.IGNORECASE)
_AFTER = re.compile(r"\s{0,12}(?:$|[.,;:)\]/+&]|(?:and|in|into|or|plus|to|with)\b)", re.IGNORECASE)
_NEAR = 12  # characters checked on either side


def normalise_barcode(match: re.Match[str]) -> str:
    """Return the barcode in the bench's spelling."""
    return f"MAT-{match[1].upper()}"


def is_separate_barcode(match: re.Match[str]) -> bool:
    """Return whether the match is a barcode, even if no input has it, and not part of a word such as mat-finished."""
    full = _LONE.match(match.string, match.start())
    # A word such as "mat-finished" is no barcode; capitals or digits make one.
    return full is not None and (match[0].isupper() or any(sign.isdigit() for sign in match[1]))


def is_reference(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    return _BEFORE.search(before) is not None and _AFTER.match(match.string, match.end()) is not None


def find_aliases(text: str) -> set[str]:
    return {found[0] for found in ALIAS.finditer(text)}


def find_codes(text: str) -> set[str]:
    """Return all barcodes and aliases in a text, the barcodes in the bench's spelling."""
    return {normalise_barcode(found) for found in BARCODE.finditer(text)} | find_aliases(text)


MAX_NAME_FOR_CODE = 60  # characters of a name that replaces a code; full names would let a text grow with every step
_ALIAS = re.compile(r"[Ss]([1-9]\d{0,2})")


def make_alias(place: int) -> str:
    """Return S1 for the first material of the action."""
    return f"S{place + 1}"


@dataclass(frozen=True)
class Inputs:
    """The materials of an action, in its order.

    Codes in `given` occur in their texts or in the action, and are labels.
    """

    materials: tuple[Material, ...]
    given: frozenset[str] = frozenset()

    @classmethod
    def from_materials(cls, materials: Sequence[Material], given: str = "") -> "Inputs":
        return cls(tuple(materials)).with_texts(given)

    def with_texts(self, given: str) -> "Inputs":
        """Return the same inputs with the codes in these texts as labels: a tube may be labelled S1.

        Barcodes of inputs are never labels.
        """
        own_barcodes = {material.barcode for material in self.materials}
        return replace(self, given=self.given | frozenset(find_codes(given)) - own_barcodes)

    def find_input(self, written: str) -> Material | None:
        """Return the input that an alias, a barcode or a unique name refers to, or None."""
        # Quotation marks and brackets around an alias have no meaning.
        stripped = written.strip().strip("[]()\"'").strip()
        # An alias first, because prompts identify the inputs by aliases.
        if (match := _ALIAS.fullmatch(stripped)) and int(match[1]) <= len(self.materials):
            return self.materials[int(match[1]) - 1]
        code = normalise_barcode(match) if (match := BARCODE.fullmatch(stripped)) else stripped
        return next((m for m in self.materials if m.barcode == code), None) or self.find_by_name(written)

    def find_by_name(self, name: str) -> Material | None:
        """Return the input with that name if it is unique. Texts too long for a name are not compared."""
        if len(name) > LONGEST_NAME:
            return None
        normalised = normalise_text(name)
        matches = [m for m in self.materials if normalise_text(m.name) == normalised]
        return matches[0] if len(matches) == 1 else None

    def replace_in_label(self, text: str) -> str:
        """Return a name or property with barcodes of inputs replaced by names and other barcodes removed."""
        # Barcodes in brackets repeat the name before them, so they are removed first.
        return BARCODE.sub(self._replace_barcode, BRACKETED.sub(self._replace_bracketed, text)).strip()

    def replace_in_property(self, text: str) -> str:
        """Return the result of `replace_in_label`, with aliases replaced as well.

        Aliases that are part of a name, such as Standard S1, are kept.
        """
        return ALIAS.sub(
            lambda f: self._replace_alias(f) if is_reference(f) else f[0], self.replace_in_label(text)
        ).strip()

    def replace_in_observation(self, text: str) -> str:
        """Return the result of `replace_in_label`, with aliases replaced wherever they occur."""
        return self.replace_in_reason(self.replace_in_label(text))

    def replace_in_reason(self, text: str) -> str:
        """Return a reason for rejection with aliases replaced; barcodes stay, because the agent knows them."""
        return ALIAS.sub(self._replace_alias, text).strip()

    def _replace_barcode(self, match: re.Match[str]) -> str:
        code = normalise_barcode(match)
        if code in self.given:
            return match[0]
        own = next((material for material in self.materials if material.barcode == code), None)
        if own is not None:
            return own.name[:MAX_NAME_FOR_CODE]
        # A barcode that no input has is removed, because a rater must never see one.
        return "" if is_separate_barcode(match) else match[0]

    def _replace_alias(self, match: re.Match[str]) -> str:
        if match[0] in self.given or int(match[1]) > len(self.materials):
            return match[0]
        return self.materials[int(match[1]) - 1].name[:MAX_NAME_FOR_CODE]

    def _replace_bracketed(self, match: re.Match[str]) -> str:
        """Return "" for a barcode in brackets that only repeats the name before it, else the unchanged text."""
        code = normalise_barcode(match)
        is_own = code in {material.barcode for material in self.materials}
        code_match = BARCODE.search(match[0])
        is_redundant = code not in self.given and (
            is_own or (code_match is not None and is_separate_barcode(code_match))
        )
        return "" if is_redundant else match[0]


def link_materials(
    entries: Sequence[Mapping[str, Any]], drafts: Sequence[NewMaterial], inputs: Inputs, remarks: ParseNotes
) -> tuple[NewMaterial, ...]:
    """Return the new materials with `replaces` and `derived_from` as barcodes.

    Unlimited inputs that were returned unchanged are left out.
    """
    claims = [_parse_claim(entry, at, inputs, remarks) for at, entry in enumerate(entries)]
    claims = _claim_by_name(entries, drafts, claims, inputs)
    linked_materials, taken = [], set()
    for at, (entry, draft, claim) in enumerate(zip(entries, drafts, claims, strict=True)):
        place = f"new_materials[{at}]"
        # An unlimited input that comes back unchanged is no new material.
        if _is_echo(draft, claim, inputs):
            remarks.add_note(f"{place}: {quote_short(draft.name)} is unlimited and stays as it is")
            continue
        if draft.available_for_use == UNLIMITED:
            remarks.add_problem(f"{place}.available_for_use is unlimited: nothing becomes unlimited")
        if claim is not None and claim.available_for_use == UNLIMITED:
            remarks.add_problem(
                f"{place}.replaces names {quote_short(claim.name)}, which is unlimited and never handed back; leave replaces"
                " out if this is a portion of it"
            )
        elif claim is not None and claim.barcode in taken:
            remarks.add_problem(
                f"{place}.replaces names {quote_short(claim.name)}, which another material replaces already"
            )
        code = claim.barcode if claim is not None else ""
        # The empty code of new materials is added as well; it is never looked up.
        taken.add(code)
        _check_alias_mix_up(place, draft, claim, drafts, inputs, remarks)
        linked_materials.append(
            replace(draft, replaces=code, derived_from=_parse_parents(entry, code, place, inputs, remarks))
        )
    return tuple(linked_materials)


def _check_alias_mix_up(
    place: str,
    draft: NewMaterial,
    claim: Material | None,
    drafts: Sequence[NewMaterial],
    inputs: Inputs,
    remarks: ParseNotes,
) -> None:
    """Record a problem if a tube that is itself labelled S1 was taken for the alias S1, which would exchange two tubes."""
    meant = inputs.find_by_name(draft.name)
    if (
        claim is None
        or meant is None
        or meant.barcode == claim.barcode
        or normalise_text(claim.name) == normalise_text(draft.name)
    ):
        return
    same_name = [other for other in drafts if normalise_text(other.name) == normalise_text(draft.name)]
    # Only a unique name proves a mistake; with two of that name, one may be a portion of the other.
    if _is_limited(meant) and len(same_name) == 1:  # with two of that name, one may have been poured from the other
        remarks.add_problem(
            f"{place} is called {quote_short(draft.name)} as the input {make_alias(inputs.materials.index(meant))} is, and replaces"
            f" {make_alias(inputs.materials.index(claim))}, which is called {quote_short(claim.name)}: write the alias of the input"
            " that it continues, or give it a name of its own"
        )


def note_used_up(drafts: Sequence[NewMaterial], inputs: Inputs, remarks: ParseNotes) -> None:
    """Add a note about the limited inputs that no new material continues: they are used up."""
    replaced = {draft.replaces for draft in drafts}
    used_up = [
        material.name for material in inputs.materials if _is_limited(material) and material.barcode not in replaced
    ]
    if used_up:
        more = f" and {len(used_up) - 5} more" if len(used_up) > 5 else ""
        remarks.add_note(
            f"not handed back and so used up: {', '.join(quote_short(name, 30) for name in used_up[:5])}{more}"
        )


def _parse_claim(entry: Mapping[str, Any], index: int, inputs: Inputs, remarks: ParseNotes) -> Material | None:
    """Return the input that `replaces` names, or None.

    A barcode or word that names no input is ignored, with a note.
    """
    written = entry.get("replaces")
    if isinstance(written, list) and len(written) == 1:
        written = written[0]
    if written is None or written == [] or (isinstance(written, str) and not written.strip()):
        return None
    if not isinstance(written, str):
        remarks.add_problem(f"new_materials[{index}].replaces must be the alias of one input, such as S1")
        return None
    claim = inputs.find_input(written)
    if claim is None:
        remarks.add_note(f"new_materials[{index}].replaces {quote_short(written)} is not an input and was left out")
    return claim


def _claim_by_name(
    entries: Sequence[Mapping[str, Any]],
    drafts: Sequence[NewMaterial],
    claims: Sequence[Material | None],
    inputs: Inputs,
) -> list[Material | None]:
    """Return the claims, completed by name.

    A material without a usable `replaces` continues the input with the same unique name.
    """
    claimed = {claim.barcode for claim in claims if claim}
    silent = [
        # An explicit null means that it continues nothing, and a name must not override that.
        claim is None and ("replaces" not in entry or bool(entry["replaces"]))
        for entry, claim in zip(entries, claims, strict=True)
    ]
    candidates = [
        inputs.find_by_name(draft.name) if quiet else None for draft, quiet in zip(drafts, silent, strict=True)
    ]
    codes = [material.barcode for material in candidates if material]
    return [
        claim
        or (
            candidate
            if candidate
            and candidate.barcode not in claimed
            and codes.count(candidate.barcode) == 1
            and _is_limited(candidate)
            else None
        )
        for claim, candidate in zip(claims, candidates, strict=True)
    ]


def _is_limited(material: Material) -> bool:
    return material.available_for_use != UNLIMITED


def _is_echo(draft: NewMaterial, claim: Material | None, inputs: Inputs) -> bool:
    """Return whether an unlimited input was returned unchanged."""
    named_input = claim or inputs.find_by_name(draft.name)
    return draft.available_for_use == UNLIMITED and named_input is not None and not _is_limited(named_input)


def _parse_parents(
    entry: Mapping[str, Any], itself: str, place: str, inputs: Inputs, remarks: ParseNotes
) -> tuple[str, ...]:
    """Return the barcodes of `derived_from`. A new material of an action with a single input derives from it."""
    written = entry.get("derived_from")
    words = written.split(",") if isinstance(written, str) else written or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        remarks.add_problem(f'{place}.derived_from must be a list of aliases, such as ["S1", "S2"]')
        return ()
    if len(words) > MOST_MATERIALS:
        remarks.add_problem(f"{place}.derived_from has {len(words)} entries; allowed: {MOST_MATERIALS}")
        return ()
    barcodes = [material.barcode for word in words if (material := inputs.find_input(word))]
    if len(barcodes) < sum(1 for word in words if word.strip()):
        remarks.add_note(f"{place}.derived_from names something that is not an input; it was left out")
    # With a single input there is only one possible origin.
    if not barcodes and not itself and len(inputs.materials) == 1:
        barcodes = [inputs.materials[0].barcode]
    return tuple(code for code in dict.fromkeys(barcodes) if code != itself)
