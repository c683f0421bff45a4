"""A transition as the checks receive it. Ids, truth labels and reasoning are not parsed, so no check can use them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import completion, layout, linking, properties, shapes, spelling, units, words
from simulation.checker.reading.leaves import Leaf, collect_words, flatten_properties
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab.actions import ActionType, Catalogue

_MAX_ENTRIES = 400  # maximum number of materials or observations; a plate has 384 wells
# Words in the names of parameters that give the named material or volume its role.
SOURCE = word_set("source from origin donor stock")
TARGET = word_set("destination target to into recipient receiving dest")
SOLVENT = word_set("diluent solvent buffer medium media titrant diluant with water acid base")
COMPOUND = word_set("compound drug agonist antagonist stimulus stimulant inhibitor")
TOTAL = word_set("final total target end desired fill")
# All words that may occur in the name of the moved volume: one other word, as in "mixing_volume", rules it out.
_MOVED_WORDS = word_set(
    "volume vol amount transfer aliquot dispense dispensed quantity transferred each per aliquoted size moved "
    "sample tube well destination dest portion source ul ml"
)
_PORTION_WORDS = word_set("sample stock aliquot portion source transfer inoculum")
_ADDED_WORDS = _MOVED_WORDS | SOLVENT | word_set("added add resuspension")
_COUNT_WORDS = word_set(
    "count number num n aliquot dilution step copie replicate point level of portion tube total no quantity serial series"
)


class TransitionError(ValueError):
    """Raised if the data is not a transition. The message names the invalid part."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of an action as leaves, and the materials that they name."""

    leaves: tuple[Leaf, ...]
    materials_by_key: Mapping[str, MaterialView]  # key of the parameter -> material
    raw: Mapping[str, Any]

    def list_amounts(self, dimension: str) -> list[tuple[Leaf, Amount]]:
        return [(leaf, amount) for leaf in self.leaves if (amount := leaf.parse_amount(dimension))]

    def list_values(self, dimension: str) -> list[Decimal]:
        return [amount.value for _, amount in self.list_amounts(dimension)]

    def list_materials(self, role: frozenset[str]) -> list[MaterialView]:
        """Return the materials that parameters of this role name."""
        views = (view for key, view in self.materials_by_key.items() if role & set(words.tokenize(key)))
        return list({view.path: view for view in views}.values())

    def find_material(self, role: frozenset[str]) -> MaterialView | None:
        """Return the only material that parameters of this role name, or None if they name none or several."""
        views = self.list_materials(role)
        return views[0] if len(views) == 1 else None

    def has_named(self, view: MaterialView) -> bool:
        """Return whether a parameter names this material."""
        return any(view is other for other in self.materials_by_key.values())

    def find_moved_volume(self) -> Amount | None:
        """Return the volume that the parameters state for each destination, or None if unclear."""
        return self._find_volume(_MOVED_WORDS, words.VOLUME | {"amount", "quantity", "size"})

    def find_added_volume(self) -> Amount | None:
        """Return the volume of solvent that the parameters state for each sample, or None if unclear."""
        return self._find_volume(_ADDED_WORDS, words.VOLUME | {"amount", "quantity"})

    def _find_volume(self, allowed: frozenset[str], core: frozenset[str]) -> Amount | None:
        def is_suitable(key_words: frozenset[str]) -> bool:
            has_core = key_words & (core | {"transfer", "aliquot", "solvent", "diluent"})
            return key_words <= allowed and bool(has_core) and not key_words & TOTAL - {"target"}

        return _find_only(a for leaf, a in self.list_amounts("volume") if is_suitable(leaf.word_set - {"#"}))

    def find_portion_volume(self, sample: frozenset[str]) -> Amount | None:
        """Return the volume taken from the sample, or None. The parameter is named after the sample or a portion."""
        portion_words = (_PORTION_WORDS | sample) - words.VOLUME
        return _find_only(a for leaf, a in self.list_amounts("volume") if portion_words & leaf.word_set)

    def find_total_volume(self) -> Amount | None:
        """Return the volume that each sample must have afterwards according to the parameters, or None if unclear."""
        amounts = ((leaf.word_set, amount) for leaf, amount in self.list_amounts("volume"))
        return _find_only(a for key_words, a in amounts if key_words & TOTAL and not key_words & {"max", "maximum"})

    def find_dilution_factor(self) -> Decimal | None:
        """Return the dilution factor (total over portion), written like "10", "10x", "1:10" or "1/10", or None."""
        # Beside "factor: 10", "dilutions: 3" is a number of steps, whichever comes first.
        factors = [leaf for leaf in self.leaves if {"factor", "fold"} & leaf.word_set]
        dilutions = [
            leaf
            for leaf in self.leaves
            # "dilutions: 3" is a number of steps.
            if (leaf.word_set == {"dilution"} and not leaf.key.lower().endswith("s"))
            or {"ratio", "dilution"} <= leaf.word_set
        ]
        return next((_parse_factor(leaf.value) for leaf in (*factors, *dilutions)), None)

    def find_count(self, *things: str) -> int | None:
        """Return the whole number in a parameter like number_of_aliquots, n_tubes or count, or None if unclear."""
        counts = set()
        for leaf in self.leaves:
            key_words = leaf.word_set
            is_count = key_words <= _COUNT_WORDS and key_words & {"count", "number", "num", "n", "no", *things}
            number = units.split_number(leaf.value) if is_count and not leaf.unit else None
            # More than 1000 is no count of tubes or steps but a size or an amount without a unit.
            if number and not number[2].strip() and number[0] == int(number[0]) and 0 < number[0] < 1000:
                counts.add(int(number[0]))
        return counts.pop() if len(counts) == 1 else None

    def count_wells(self) -> int | None:
        """Return the number of wells in a list of wells, or None if there is no such list."""
        leaves_of_wells = [leaf for leaf in self.leaves if {"well", "position"} & leaf.word_set]
        labels = {part.strip().lower() for leaf in leaves_of_wells for part in leaf.value_text.split(",")}
        return len(labels) if labels and all(words.is_well(label) for label in labels) else None


def _find_only(amounts: Iterable[Amount]) -> Amount | None:
    """Return the first amount, or None if there is none or several have different values: their meaning is unclear."""
    found = list(amounts)
    return found[0] if len({amount.value for amount in found}) == 1 else None


def _parse_factor(value: Any) -> Decimal | None:
    text = units.normalise_text(str(value)[:40]).lower().strip().removesuffix("fold").rstrip("- x")
    for sign in (":", "/", " in "):
        numerator, separator, denominator = text.partition(sign)
        if separator and numerator.strip() == "1":
            text = denominator.strip()
            break
    number = units.split_number(text)
    # A factor up to 1 dilutes nothing; it is the portion's share or a mistake.
    return number[0] if number and not number[2].strip() and number[0] > 1 else None


@dataclass(frozen=True)
class ObservationView:
    """One observation: its description, and the recorded value."""

    path: str
    raw: Mapping[str, Any]
    description: str
    value: str

    @property
    def full_text(self) -> str:
        return f"{self.description}: {self.value}" if self.value else self.description


@dataclass(frozen=True)
class Transition:
    """Inputs, action and outcome. `links` maps each output to the input that it continues, if that is clear."""

    action: str
    family: str
    inputs: tuple[MaterialView, ...]
    outputs: tuple[MaterialView, ...]
    observations: tuple[ObservationView, ...]
    parameters: Parameters
    materials: tuple[str, ...]
    outcome: Mapping[str, Any]
    links: Mapping[int, int]
    action_type: ActionType | None = None
    memo: dict[str, Any] = field(default_factory=dict)  # costly results that several checks need

    @property
    def is_success(self) -> bool:
        # A missing `success` counts as true: L11 reports it, and the other checks can still run.
        return self.outcome.get("success") is not False

    @property
    def limited_inputs(self) -> list[MaterialView]:
        return [view for view in self.inputs if not view.is_unlimited]

    @property
    def usable_outputs(self) -> list[MaterialView]:
        """Return the outputs that are available for further use."""
        return [view for view in self.outputs if not view.is_used_up]

    @cached_property
    def _indices(self) -> dict[int, int]:
        """Return the index of each view by its `id`, because two materials may be equal in every field."""
        return {id(view): index for views in (self.inputs, self.outputs) for index, view in enumerate(views)}

    @cached_property
    def _output_indices(self) -> dict[int, int]:
        return {source: output for output, source in self.links.items()}

    def find_input(self, output: MaterialView) -> MaterialView | None:
        """Return the input that this output continues, or None if it is not linked to any."""
        source = self.links.get(self._indices[id(output)])
        return None if source is None else self.inputs[source]

    def find_output(self, source: MaterialView) -> MaterialView | None:
        output = self._output_indices.get(self._indices[id(source)])
        return None if output is None else self.outputs[output]

    def list_pairs(self) -> list[tuple[MaterialView, MaterialView]]:
        """Return (input, output) of every material that is continued."""
        return [(self.inputs[j], self.outputs[i]) for i, j in sorted(self.links.items())]

    def list_kept_pairs(self) -> list[tuple[MaterialView, MaterialView]]:
        """Return (input, output) of every limited material that is continued and not used up."""
        return [
            (before, after) for before, after in self.list_pairs() if not before.is_unlimited and not after.is_used_up
        ]

    @cached_property
    def input_texts(self) -> frozenset[str]:
        """Return the names and property values of all inputs, exactly as written."""
        return frozenset(
            text for view in self.inputs for text in (view.name, *(leaf.value_text for leaf in view.leaves))
        )

    @cached_property
    def input_words(self) -> frozenset[str]:
        """Return all words of the inputs and the parameters."""
        return collect_words(self.parameters.leaves).union(*(view.all_words for view in self.inputs))

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the catalogue's defaults of the parameters that are not set."""
        all_parameters = self.action_type.parameters if self.action_type is not None else ()
        return {
            p.name: p.default for p in all_parameters if p.default is not None and p.name not in self.parameters.raw
        }

    def list_compounds(self) -> list[MaterialView]:
        """Return the materials that the parameters name as compounds added during the action."""
        named = self.parameters.materials_by_key.items()
        return [view for key, view in named if COMPOUND & set(words.tokenize(key))]

    def list_settings(self, dimension: str) -> list[tuple[Leaf, Amount]]:
        """Return the amounts set, the catalogue's defaults of parameters not set, and amounts in the parameters' texts."""
        if (key := f"settings {dimension}") not in self.memo:
            leaves = (*self.parameters.leaves, *flatten_properties(self.defaults))
            amounts = [(leaf, amount) for leaf in leaves if (amount := leaf.parse_amount(dimension))]
            texts = ((leaf, leaf.value_text) for leaf in self.parameters.leaves)
            amounts += [(leaf, amount) for leaf, text in texts for amount in units.find_amounts(text, dimension)]
            self.memo[key] = amounts
        return list(self.memo[key])

    def find_replicate_count(self) -> int | None:
        """Return how many times each sample is read, or None if the action does not state it."""
        counts = {
            units.parse_number(value)
            for key, value in (self.defaults | dict(self.parameters.raw)).items()
            if {"replicate", "reading", "repeat"} & set(words.tokenize(str(key)))
        }
        count = counts.pop() if len(counts) == 1 else None
        return int(count) if count is not None and 0 < count < 100 else None


def parse_transition(data: Any, catalogue: Catalogue | None = None) -> Transition:
    """Parse a transition from JSON data. Raises TransitionError if the data is not a transition."""
    if not isinstance(data, Mapping):
        raise TransitionError("the line is not a JSON object")
    data = layout.normalise_layout(_normalise_shapes(spelling.normalise_transition(data)))
    action, outcome = _get_object(data, "action"), _get_object(data, "outcome")
    name = action.get("name")
    if not isinstance(name, str) or not name.strip():
        raise TransitionError("action.name must be a non-empty text")
    name = words.canonical_name(name[:100])
    inputs = tuple(
        completion.complete_from_name(view) for view in _build_views(data.get("input_materials"), "input_materials")
    )
    known_names = {view.name for view in inputs}
    # A label that the action asks for may name what the vessel will be filled with later.
    labels = {leaf.value_text.strip() for leaf in flatten_properties(action.get("parameters"))} - {""}
    outputs = tuple(
        view if view.name in labels else completion.complete_from_name(view, view.name not in known_names)
        for view in _build_views(outcome.get("new_materials") or [], "new_materials")
    )
    family = words.find_family(name)
    codes = action.get("materials")
    barcodes = [e.get("barcode") if isinstance(e, Mapping) else e for e in codes] if isinstance(codes, list) else []
    return Transition(
        action=name,
        family=family,
        inputs=inputs,
        outputs=outputs,
        observations=_build_observations(outcome.get("new_observations") or []),
        parameters=parse_parameters(action.get("parameters"), inputs),
        materials=tuple(code[:100] for code in barcodes[:_MAX_ENTRIES] if isinstance(code, str)),
        outcome=outcome,
        links=linking.link_materials(inputs, outputs, family),
        action_type=catalogue.find_type(name) if catalogue else None,
    )


def _normalise_shapes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transition with the properties of its materials and the values of its observations in one shape."""
    result = dict(data)
    outcome = data.get("outcome")
    result["input_materials"] = _normalise_field(data.get("input_materials"), "properties")
    if isinstance(outcome, Mapping):
        result["outcome"] = {
            **outcome,
            "new_materials": _normalise_field(outcome.get("new_materials"), "properties"),
            "new_observations": _normalise_field(outcome.get("new_observations"), "value"),
        }
    return result


def _normalise_field(entries: Any, field_name: str) -> Any:
    if not isinstance(entries, list) or len(entries) > _MAX_ENTRIES:
        return entries
    return [_normalise_entry(entry, field_name) if isinstance(entry, Mapping) else entry for entry in entries]


def _normalise_entry(entry: Mapping[str, Any], field_name: str) -> Mapping[str, Any]:
    value = entry.get(field_name)
    if isinstance(value, Mapping):
        # The whole stays an object, also if it has only a number and a unit.
        return {**entry, field_name: shapes.normalise_properties(value)}
    if field_name == "value" and isinstance(value, str | list):
        return {**entry, field_name: shapes.normalise_shapes(value)}
    return entry


def parse_parameters(data: Any, inputs: Iterable[MaterialView]) -> Parameters:
    parameters = data if isinstance(data, Mapping) else {}
    leaves = flatten_properties(parameters)
    return Parameters(leaves, dict(_iter_named_materials(leaves, list(inputs))), parameters)


def _iter_named_materials(leaves: Iterable[Leaf], inputs: list[MaterialView]) -> Iterator[tuple[str, MaterialView]]:
    """Yield (key, material) of every parameter whose value is the barcode or the unique name of a material."""
    by_code = {view.barcode: view for view in inputs if view.barcode}
    names = [view.name for view in inputs]
    # A name that two materials share identifies neither.
    by_name = {view.name: view for view in inputs if view.name and names.count(view.name) == 1}
    for index, leaf in enumerate(leaves):
        text = leaf.value_text.strip()
        view = by_code.get(text) or by_name.get(text)
        if view is not None:
            # A list has several materials under one key; the index keeps the keys of the result unique.
            yield (f"{leaf.key} {index}" if "#" in leaf.words else leaf.key), view


def _get_object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise TransitionError(f"{key} must be an object")
    return value


def _build_views(data: Any, path: str) -> tuple[MaterialView, ...]:
    if not isinstance(data, list):
        raise TransitionError(f"{path} must be a list")
    if len(data) > _MAX_ENTRIES or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"{path} must be a list of at most {_MAX_ENTRIES} objects")
    return tuple(properties.build_material_view(entry, f"{path}[{index}]") for index, entry in enumerate(data))


def _build_observations(data: Any) -> tuple[ObservationView, ...]:
    if not isinstance(data, list) or len(data) > _MAX_ENTRIES or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"new_observations must be a list of at most {_MAX_ENTRIES} objects")
    return tuple(
        ObservationView(
            f"new_observations[{index}]",
            entry,
            _short_text(entry.get("description")),
            _short_text(_write_out(entry.get("value"))),
        )
        for index, entry in enumerate(data)
    )


def _write_out(value: Any) -> Any:
    """Return nested values as one text, "A260: 0.764; A280: 0.415", and any other value unchanged."""
    if not isinstance(value, Mapping | list):
        return value
    leaves = flatten_properties(value)
    texts = [f"{leaf.value_text} {leaf.unit}".strip() for leaf in leaves]
    if isinstance(value, list) and all("#" in leaf.words and not leaf.own_words for leaf in leaves):
        return ", ".join(texts)
    return "; ".join(f"{leaf.path_text}: {text}".strip(": ") for leaf, text in zip(leaves, texts, strict=True))


def _short_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    # Converting an integer of thousands of digits to text is slow, and Python refuses above 4300 digits.
    if isinstance(value, int) and abs(value) > 10**15:
        return ""
    return str(value)[:2000]
