"""Resolve which inputs the aliases and barcodes of a reply refer to, and which input each new material continues."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from simulation.lab.materials import UNLIMITED, Material, NewMaterial
from simulation.llm.conversation import normalise_text, quote_short
from simulation.llm.reply_fields import LONGEST_NAME, MOST_MATERIALS, ParseNotes

MAX_NAME_FOR_CODE = 60  # characters of a name that replaces a code; full names would let a text grow with every step

_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_WRITTEN = rf"MAT[{_DASHES}_]([A-Z0-9]{{8}})"
_BARCODE = re.compile(_WRITTEN, re.IGNORECASE)
_BRACKETED = re.compile(rf"\s?\({_WRITTEN}\)", re.IGNORECASE)
_LONE = re.compile(rf"(?<![A-Za-z0-9]){_WRITTEN}(?![A-Za-z0-9])", re.IGNORECASE)
_ALIAS = re.compile(r"\bS([1-9]\d{0,2})\b")
_ONLY_ALIAS = re.compile(r"[Ss]([1-9]\d{0,2})")
# Contexts in which an alias is a separate word, and not part of a name such as "Standard S1" or "S1 nuclease".
_BEFORE = re.compile(r"(?:^|[,;:(\[/+&]|\b(?:and|by|for|from|in|into|of|or|plus|to|with))\s*$", re.IGNORECASE)
_AFTER = re.compile(r"\s{0,12}(?:$|[.,;:)\]/+&]|(?:and|in|into|or|plus|to|with)\b)", re.IGNORECASE)
_NEAR = 12  # characters checked on either side


def make_alias(place: int) -> str:
    """Return S1 for the first material of the action."""
    return f"S{place + 1}"


def find_aliases(text: str) -> set[str]:
    return {match[0] for match in _ALIAS.finditer(text)}


def _normalise_barcode(match: re.Match[str]) -> str:
    """Return the barcode in the bench's spelling."""
    return f"MAT-{match[1].upper()}"


def _is_separate_barcode(match: re.Match[str]) -> bool:
    """Return whether the match is a barcode, even if no input has it, and not part of a word such as mat-finished."""
    is_lone = _LONE.match(match.string, match.start()) is not None
    return is_lone and (match[0].isupper() or any(sign.isdigit() for sign in match[1]))


def _is_limited(material: Material) -> bool:
    return material.available_for_use != UNLIMITED


@dataclass(frozen=True)
class Inputs:
    """The materials of an action, in its order. Codes in `given` occur in their texts or in the action, and are labels."""

    materials: tuple[Material, ...]
    given: frozenset[str] = frozenset()

    @classmethod
    def from_materials(cls, materials: Sequence[Material], given: str = "") -> "Inputs":
        return cls(tuple(materials)).with_texts(given)

    @cached_property
    def by_barcode(self) -> dict[str, Material]:
        return {material.barcode: material for material in self.materials}

    def with_texts(self, given: str) -> "Inputs":
        """Return the same inputs with the codes in these texts, except their barcodes, as labels: a tube may be S1."""
        codes = {_normalise_barcode(match) for match in _BARCODE.finditer(given)} | find_aliases(given)
        return replace(self, given=self.given | codes - set(self.by_barcode))

    def find_input(self, written: str) -> Material | None:
        """Return the input that an alias, a barcode or a unique name refers to, or None."""
        # Quotation marks and brackets around an alias have no meaning.
        stripped = written.strip().strip("[]()\"'").strip()
        # An alias first, because prompts identify the inputs by aliases.
        if (match := _ONLY_ALIAS.fullmatch(stripped)) and int(match[1]) <= len(self.materials):
            return self.materials[int(match[1]) - 1]
        match = _BARCODE.fullmatch(stripped)
        return self.by_barcode.get(_normalise_barcode(match) if match else stripped) or self.find_by_name(written)

    def find_by_name(self, name: str) -> Material | None:
        """Return the input with that name if it is unique. Texts too long for a name are not compared."""
        if len(name) > LONGEST_NAME:
            return None
        normalised = normalise_text(name)
        matches = [material for material in self.materials if normalise_text(material.name) == normalised]
        return matches[0] if len(matches) == 1 else None

    def replace_in_label(self, text: str) -> str:
        """Return a name or property with barcodes of inputs replaced by names and other barcodes removed."""
        # Barcodes in brackets repeat the name before them, so they are removed first.
        return _BARCODE.sub(self._replace_barcode, _BRACKETED.sub(self._replace_bracketed, text)).strip()

    def replace_in_property(self, text: str) -> str:
        """Return the result of `replace_in_label`, with aliases replaced as well, except in names such as Standard S1."""

        def replace_reference(match: re.Match[str]) -> str:
            before = match.string[max(0, match.start() - _NEAR) : match.start()]
            is_word = _BEFORE.search(before) and _AFTER.match(match.string, match.end())
            return self._replace_alias(match) if is_word else match[0]

        return _ALIAS.sub(replace_reference, self.replace_in_label(text)).strip()

    def replace_in_observation(self, text: str) -> str:
        """Return the result of `replace_in_label`, with aliases replaced wherever they occur."""
        return self.replace_in_reason(self.replace_in_label(text))

    def replace_in_reason(self, text: str) -> str:
        """Return a reason for rejection with aliases replaced; barcodes stay, because the agent knows them."""
        return _ALIAS.sub(self._replace_alias, text).strip()

    def _replace_barcode(self, match: re.Match[str]) -> str:
        code = _normalise_barcode(match)
        if code in self.given:
            return match[0]
        if code in self.by_barcode:
            return self.by_barcode[code].name[:MAX_NAME_FOR_CODE]
        # A barcode that no input has is removed, because a rater must never see one.
        return "" if _is_separate_barcode(match) else match[0]

    def _replace_bracketed(self, match: re.Match[str]) -> str:
        """Return "" for a barcode in brackets that only repeats the name before it, else the unchanged text."""
        code, inner = _normalise_barcode(match), _BARCODE.search(match[0])
        is_barcode = code in self.by_barcode or (inner is not None and _is_separate_barcode(inner))
        return "" if is_barcode and code not in self.given else match[0]

    def _replace_alias(self, match: re.Match[str]) -> str:
        if match[0] in self.given or int(match[1]) > len(self.materials):
            return match[0]
        return self.materials[int(match[1]) - 1].name[:MAX_NAME_FOR_CODE]


def link_materials(
    entries: Sequence[Mapping[str, Any]], drafts: Sequence[NewMaterial], inputs: Inputs, remarks: ParseNotes
) -> tuple[NewMaterial, ...]:
    """Return the new materials with `replaces` and `derived_from` as barcodes, without unchanged unlimited inputs."""
    claims = [_parse_claim(entry, at, inputs, remarks) for at, entry in enumerate(entries)]
    claims = _claim_by_name(entries, drafts, claims, inputs)
    linked_materials, taken = [], set()
    for at, (entry, draft, claim) in enumerate(zip(entries, drafts, claims, strict=True)):
        place = f"new_materials[{at}]"
        if draft.available_for_use == UNLIMITED:
            named_input = claim or inputs.find_by_name(draft.name)
            # An unlimited input that comes back unchanged is no new material.
            if named_input is not None and not _is_limited(named_input):
                remarks.add_note(f"{place}: {quote_short(draft.name)} is unlimited and stays as it is")
                continue
            remarks.add_problem(f"{place}.available_for_use is unlimited: nothing becomes unlimited")
        code = ""
        if claim is not None:
            code, name = claim.barcode, quote_short(claim.name)
            if not _is_limited(claim):
                remarks.add_problem(
                    f"{place}.replaces names {name}, which is unlimited and never handed back; leave replaces"
                    " out if this is a portion of it"
                )
            elif code in taken:
                remarks.add_problem(f"{place}.replaces names {name}, which another material replaces already")
            taken.add(code)
            _check_alias_mix_up(place, draft, claim, drafts, inputs, remarks)
        parents = _parse_parents(entry, code, place, inputs, remarks)
        linked_materials.append(replace(draft, replaces=code, derived_from=parents))
    return tuple(linked_materials)


def _parse_claim(entry: Mapping[str, Any], index: int, inputs: Inputs, remarks: ParseNotes) -> Material | None:
    """Return the input that `replaces` names, or None. A barcode or word that names no input is ignored, with a note."""
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
    """Return the claims; a material without a usable `replaces` continues the input with the same unique name."""
    claimed = {claim.barcode for claim in claims if claim}
    candidates = [
        # An explicit null means that it continues nothing, and a name must not override that.
        inputs.find_by_name(draft.name) if claim is None and entry.get("replaces", True) else None
        for entry, draft, claim in zip(entries, drafts, claims, strict=True)
    ]
    counts = Counter(material.barcode for material in candidates if material)

    def is_usable(candidate: Material) -> bool:
        return candidate.barcode not in claimed and counts[candidate.barcode] == 1 and _is_limited(candidate)

    return [
        claim or (candidate if candidate and is_usable(candidate) else None)
        for claim, candidate in zip(claims, candidates, strict=True)
    ]


def _check_alias_mix_up(
    place: str, draft: NewMaterial, claim: Material, drafts: Sequence[NewMaterial], inputs: Inputs, remarks: ParseNotes
) -> None:
    """Record a problem if a tube that is itself labelled S1 was taken for the alias S1, which would exchange two tubes."""
    meant, name = inputs.find_by_name(draft.name), normalise_text(draft.name)
    if meant is None or meant.barcode == claim.barcode or normalise_text(claim.name) == name:
        return
    # Only a unique name proves a mistake; with two of that name, one may be a portion of the other.
    if _is_limited(meant) and [normalise_text(other.name) for other in drafts].count(name) == 1:
        remarks.add_problem(
            f"{place} is called {quote_short(draft.name)} as the input {make_alias(inputs.materials.index(meant))} is, and replaces"
            f" {make_alias(inputs.materials.index(claim))}, which is called {quote_short(claim.name)}: write the alias of the input"
            " that it continues, or give it a name of its own"
        )


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


def note_used_up(drafts: Sequence[NewMaterial], inputs: Inputs, remarks: ParseNotes) -> None:
    """Add a note about the limited inputs that no new material continues: they are used up."""
    replaced = {draft.replaces for draft in drafts}
    used_up = [
        material.name for material in inputs.materials if _is_limited(material) and material.barcode not in replaced
    ]
    if used_up:
        more = f" and {len(used_up) - 5} more" if len(used_up) > 5 else ""
        names = ", ".join(quote_short(name, 30) for name in used_up[:5])
        remarks.add_note(f"not handed back and so used up: {names}{more}")
