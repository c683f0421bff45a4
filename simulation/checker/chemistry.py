"""Formulas of common reagents: molar masses and the ions that a salt brings into a solution.

Molar masses are computed from formulas with the abridged standard atomic weights of IUPAC (2021), so no molar mass is
typed by hand except those of mixtures and polymers, which are not listed because they have none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

# Abridged standard atomic weights (IUPAC 2021), g/mol.
_ATOMIC_WEIGHTS = {
    "H": "1.008", "Li": "6.94", "B": "10.81", "C": "12.011", "N": "14.007", "O": "15.999", "F": "18.998", "Na": "22.990",
    "Mg": "24.305", "Al": "26.982", "Si": "28.085", "P": "30.974", "S": "32.06", "Cl": "35.45", "K": "39.098", "Ca": "40.078",
    "Cr": "51.996", "Mn": "54.938", "Fe": "55.845", "Co": "58.933", "Ni": "58.693", "Cu": "63.546", "Zn": "65.38", "Br": "79.904",
    "Sr": "87.62", "Ag": "107.87", "Cd": "112.41", "I": "126.90", "Ba": "137.33", "Pb": "207.2",
}  # fmt: skip
# Names in lower case -> formula. Several names of one substance are separated by "/".
_FORMULAS = {
    "sodium chloride/nacl/halite/natriumchlorid/kochsalz/chlorure de sodium/cloruro de sodio": "NaCl", "potassium chloride/kcl/kaliumchlorid/chlorure de potassium/cloruro de potasio": "KCl", "calcium chloride/cacl2/calciumchlorid/chlorure de calcium/cloruro de calcio": "CaCl2",
    "calcium chloride dihydrate/cacl2 2h2o": "CaCl2(H2O)2", "magnesium chloride/mgcl2/magnesiumchlorid/chlorure de magnesium/cloruro de magnesio": "MgCl2",
    "magnesium chloride hexahydrate/mgcl2 6h2o": "MgCl2(H2O)6", "magnesium sulfate/magnesium sulphate/mgso4": "MgSO4",
    "magnesium sulfate heptahydrate/mgso4 7h2o": "MgSO4(H2O)7", "sodium sulfate/sodium sulphate/na2so4": "Na2SO4",
    "potassium sulfate/k2so4": "K2SO4", "ammonium sulfate/ammonium sulphate": "(NH4)2SO4", "ammonium chloride/nh4cl": "NH4Cl",
    "sodium bicarbonate/sodium hydrogen carbonate/nahco3": "NaHCO3", "sodium carbonate/na2co3": "Na2CO3",
    "potassium carbonate/k2co3": "K2CO3", "calcium carbonate/caco3/calcite": "CaCO3", "sodium hydroxide/naoh/natriumhydroxid/natronlauge/soude/hydroxyde de sodium/hidroxido de sodio": "NaOH",
    "potassium hydroxide/koh/kaliumhydroxid/kalilauge/hydroxyde de potassium/hidroxido de potasio": "KOH", "sodium nitrate/nano3": "NaNO3", "potassium nitrate/kno3": "KNO3",
    "silver nitrate/agno3/silbernitrat/nitrato de plata": "AgNO3", "silver chloride/agcl/silberchlorid/cloruro de plata": "AgCl", "barium chloride/bacl2": "BaCl2",
    "barium sulfate/baso4": "BaSO4", "sodium bromide/nabr": "NaBr", "potassium bromide/kbr": "KBr", "sodium iodide/nai": "NaI",
    "potassium iodide/ki": "KI", "sodium fluoride/naf": "NaF", "lithium chloride/licl": "LiCl",
    "disodium phosphate/disodium hydrogen phosphate/na2hpo4": "Na2HPO4", "monosodium phosphate/sodium dihydrogen phosphate/nah2po4": "NaH2PO4",
    "potassium dihydrogen phosphate/monopotassium phosphate/kh2po4": "KH2PO4", "dipotassium phosphate/dipotassium hydrogen phosphate/k2hpo4": "K2HPO4",
    "fluorapatite": "Ca5(PO4)3F", "hydroxyapatite": "Ca5(PO4)3OH", "hydrochloric acid/hcl/salzsaure/acide chlorhydrique/acido clorhidrico": "HCl", "nitric acid/hno3/salpetersaure/acide nitrique/acido nitrico": "HNO3",
    "sulfuric acid/sulphuric acid/h2so4/schwefelsaure/acide sulfurique/acido sulfurico": "H2SO4", "phosphoric acid/h3po4": "H3PO4", "perchloric acid/hclo4": "HClO4",
    "acetic acid/ch3cooh/essigsaure/acide acetique/acido acetico": "C2H4O2", "sodium acetate": "C2H3O2Na", "ammonium acetate": "C2H7NO2", "formic acid": "CH2O2",
    "trifluoroacetic acid/tfa": "C2HF3O2", "citric acid": "C6H8O7", "oxalic acid": "C2H2O4", "lactic acid": "C3H6O3", "gluconic acid": "C6H12O7",
    "glucose/dextrose/d-glucose/glukose/traubenzucker/glucosa": "C6H12O6", "fructose": "C6H12O6", "galactose": "C6H12O6", "sucrose/saccharose/sacarosa": "C12H22O11",
    "lactose": "C12H22O11", "trehalose": "C12H22O11", "glycerol": "C3H8O3", "mannitol": "C6H14O6", "sorbitol": "C6H14O6",
    "arabinose/l-arabinose": "C5H10O5", "urea/harnstoff/uree": "CH4N2O", "glycine": "C2H5NO2", "glutamic acid/glutamate/l-glutamate/l-glutamic acid": "C5H9NO4",
    "monosodium glutamate/sodium glutamate": "C5H8NO4Na", "gaba": "C4H9NO2", "caffeine/koffein/coffein/cafeine/cafeina": "C8H10N4O2", "theobromine": "C7H8N4O2",
    "theophylline": "C7H8N4O2", "paracetamol/acetaminophen": "C8H9NO2", "aspirin/acetylsalicylic acid": "C9H8O4", "ibuprofen": "C13H18O2",
    "benzoic acid": "C7H6O2", "sodium benzoate": "C7H5O2Na", "ascorbic acid": "C6H8O6", "ferrocene/fc/ferrocen/ferroceno": "FeC10H10",
    "ferrocenemethanol": "C11H12FeO", "tbapf6/tetrabutylammonium hexafluorophosphate": "C16H36NPF6",
    "tetrabutylammonium perchlorate/tbap": "C16H36NClO4", "potassium ferricyanide/k3fe(cn)6": "K3FeC6N6",
    "acetonitrile/mecn/acn": "C2H3N", "methanol/meoh": "CH4O", "ethanol/etoh": "C2H6O", "isopropanol/2-propanol": "C3H8O", "acetone": "C3H6O",
    "chloroform": "CHCl3", "dichloromethane/dcm": "CH2Cl2", "dmso/dimethyl sulfoxide": "C2H6OS", "water/h2o": "H2O",
    "hydrogen peroxide/h2o2": "H2O2", "hepes/hepe": "C8H18N2O4S", "tris/tris base/trizma": "C4H11NO3", "tris hcl": "C4H12NO3Cl", "mops/mop": "C7H15NO4S",
    "mes": "C6H13NO4S", "edta": "C10H16N2O8", "disodium edta dihydrate": "C10H14N2O8Na2(H2O)2", "imidazole/imidazol": "C3H4N2",
    "dtt/dithiothreitol": "C4H10O2S2", "iptg": "C9H18O5S", "ampicillin": "C16H19N3O4S", "puromycin dihydrochloride": "C22H31N7O5Cl2",
    "puromycin": "C22H29N7O5", "forskolin/fsk": "C22H34O7", "dapi": "C16H15N5", "sodium azide/nan3": "NaN3", "sodium dodecyl sulfate/sds": "C12H25SO4Na",
    "copper sulfate/cuso4": "CuSO4", "copper sulfate pentahydrate": "CuSO4(H2O)5", "zinc sulfate/znso4": "ZnSO4", "zinc chloride/zncl2": "ZnCl2",
    "iron chloride/fecl3/ferric chloride": "FeCl3", "manganese chloride/mncl2": "MnCl2", "ammonium nitrate": "NH4NO3",
    "calcium sulfate/caso4/gypsum": "CaSO4", "calcium nitrate": "Ca(NO3)2", "lead nitrate": "Pb(NO3)2", "sodium thiosulfate/na2s2o3": "Na2S2O3",
}  # fmt: skip
# Ions that inorganic salts and acids bring, by the name in a table of contents. The second part is their pattern in a
# formula. Organic sulfonates and phosphonates are no sources of sulfate or phosphate.
_IONS = {
    "na": ("Na", "sodium"), "k": ("K", "potassium"), "ca": ("Ca", "calcium"), "mg": ("Mg", "magnesium"), "ag": ("Ag", "silver"),
    "ba": ("Ba", "barium"), "li": ("Li", "lithium"), "zn": ("Zn", "zinc"), "cu": ("Cu", "copper"), "cl": ("Cl", "chloride"), "br": ("Br", "bromide"),
    "so4": ("SO4", "sulfate sulphate"), "po4": ("PO4", "phosphate"), "no3": ("NO3", "nitrate"), "hco3": ("HCO3", "bicarbonate"),
    "nh4": ("NH4", "ammonium"),
}  # fmt: skip
ION_WORDS = {word: ion for ion, (_, names) in _IONS.items() for word in (ion, *names.split())}
# Words of mixtures that bring many ions that their labels do not list.
_MIXED_TEXT = (
    "medium media buffer serum saline hbss pbs tyrode ringer acsf seawater tap mineral salt electrolyte broth extract lysate tissue blood "
    "soil rock basalt apatite drink juice tea coffee milk dmem rpmi neurobasal lb r2a sample leachate digest unknown culture cell mix master "
    "kit supplement ion brine ash sediment"
)
MIXED_SOURCES = frozenset(_MIXED_TEXT.split()) - {"mix", "sample"}
_ELEMENT = re.compile(r"([A-Z][a-z]?)([0-9]*)")
_GROUP = re.compile(r"\(([A-Za-z0-9]+)\)([0-9]*)")


class Substance(NamedTuple):
    """A substance of the table: its formula, molar mass in g/mol, and {ion: number per formula unit}."""

    formula: str
    molar_mass: Decimal
    ions: Mapping[str, int]


def count_elements(formula: str) -> Counter[str]:
    """Return {element: atoms} of a formula like "Ca5(PO4)3F". Raises KeyError if a symbol is no element of the table."""
    counts: Counter[str] = Counter()
    for group, number in _GROUP.findall(formula):
        for element, atoms in _ELEMENT.findall(group):
            counts[element] += int(atoms or 1) * int(number or 1)
    for element, atoms in _ELEMENT.findall(_GROUP.sub(" ", formula)):
        counts[element] += int(atoms or 1)
    for element in counts:
        _ATOMIC_WEIGHTS[element]
    return counts


def compute_molar_mass(formula: str) -> Decimal:
    """Return the molar mass of a formula in g/mol."""
    return sum(
        (Decimal(_ATOMIC_WEIGHTS[element]) * atoms for element, atoms in count_elements(formula).items()), Decimal(0)
    )


def _count_ions(formula: str) -> dict[str, int]:
    """Return {ion: number}. An organic molecule (with carbon bound to hydrogen) only brings its metal ions."""
    counts, ions = count_elements(formula), {}
    is_organic = "C" in counts and formula not in ("NaHCO3", "Na2CO3", "K2CO3", "CaCO3")
    for ion, (symbol, _) in _IONS.items():
        if len(symbol) <= 2 and symbol in counts and not (is_organic and symbol in ("Cl", "Br")):
            ions[ion] = counts[symbol]
        elif len(symbol) > 2 and not is_organic and symbol in formula:
            group = re.search(rf"\({symbol}\)([0-9]+)", formula)
            ions[ion] = int(group[1]) if group else 1
    return ions


def _build_table() -> dict[frozenset[str], Substance]:
    table = {}
    for names, formula in _FORMULAS.items():
        substance = Substance(formula, compute_molar_mass(formula), _count_ions(formula))
        table.update({frozenset(name.split()): substance for name in names.split("/") if name != "k3fe(cn)6"})
    return table


_SUBSTANCES = _build_table()
_HYDRATE_NAMES = ["mono", "di", "tri", "tetra", "penta", "hexa", "hepta", "octa", "nona", "deca"]
_HYDRATES = {f"{name}hydrat{end}": number for number, name in enumerate(_HYDRATE_NAMES, 1) for end in ("e", "", "o")}
_HYDRATES |= {f"{number}h2o": number for number in range(1, 13)} | {"dodecahydrate": 12, "dodecahydrat": 12}
_SHORT_NAMES = {
    frozenset(name.split()): next((other for other in names.split("/") if " " not in other), "")
    for names in _FORMULAS
    for name in names.split("/")
}
_NAME_WORDS = frozenset(word for names in _SUBSTANCES for word in names)
# Words that name a substance of the table by themselves.
SUBSTANCE_WORDS = frozenset(word for names in _SUBSTANCES if len(names) == 1 for word in names) - {
    "water",
    "h2o",
    "mes",
}
# Words beside a substance's name that do not make it another substance.
_ATTRIBUTE_TEXT = (
    "anhydrous dry dried free libre freie acid acide acido base pure d l weighed portion powder crystal neat hplc grade analytical sublimed solid stock standard of the in "
    "synthetic phase working solution reagent salt"
)
ATTRIBUTES = frozenset(_ATTRIBUTE_TEXT.split())


@lru_cache(maxsize=2048)
def find_substance(names: frozenset[str]) -> Substance | None:
    """Return the substance that these words name, apart from attributes like "anhydrous", or None."""
    if (substance := _SUBSTANCES.get(names)) is not None:
        return substance
    core = (
        names - (ATTRIBUTES - {"acid"})
        if "acid" in names and names & {"acetic", "nitric", "citric"}
        else names - ATTRIBUTES
    )
    return _SUBSTANCES.get(frozenset(core)) or _SUBSTANCES.get(
        frozenset(core | {"acid"}) if "acid" in names else frozenset(core)
    )


def find_short_name(names: frozenset[str]) -> str:
    """Return the first name of one word of the substance that has exactly this name, or ""."""
    return _SHORT_NAMES.get(names, "")


def name_component(component_words: Iterable[str]) -> str:
    """Return one name for all spellings of a component: "nacl" for "sodium chloride", "glutamate" for "L-glutamate"."""
    found = frozenset(component_words)
    plain = found - {"l", "d", "dl"} or found
    substance = find_short_name(plain) or find_short_name(plain - ATTRIBUTES)
    return substance or " ".join(sorted(plain))


def list_words(short_name: str) -> frozenset[str]:
    """Return all words of all names of the substance with this short name."""
    return frozenset(word for names, short in _SHORT_NAMES.items() if short == short_name for word in names)


def list_short_names(words: frozenset[str]) -> frozenset[str]:
    """Return the short names of all substances whose whole name is among these words."""
    return _list_short_names(words & _NAME_WORDS)


@lru_cache(maxsize=2048)
def _list_short_names(present: frozenset[str]) -> frozenset[str]:
    return frozenset(short for names, short in _SHORT_NAMES.items() if short and names <= present)


def find_only_substance(words: Iterable[str]) -> Substance | None:
    """Return the only substance whose whole name is among these words, or None if there is none or several."""
    substances = list_substances(words)
    return substances[0] if len(substances) == 1 else None


def list_substances(words: Iterable[str]) -> list[Substance]:
    """Return the substances whose whole name is among these words; of "calcium chloride dihydrate" only that one."""
    words = frozenset(words)
    present = words & _NAME_WORDS
    matches = {names: substance for names, substance in _SUBSTANCES.items() if names <= present}
    longest = {s.formula: s for names, s in matches.items() if not any(names < other for other in matches)}
    found = [substance for substance in longest.values() if substance.formula != "H2O" or len(longest) == 1]
    water = next((_HYDRATES[word] for word in words if word in _HYDRATES), 0)
    return [_hydrate(found[0], water)] if len(found) == 1 and water else list(longest.values())


def _hydrate(substance: Substance, water: int) -> Substance:
    """Return the hydrate with so many molecules of water, if the substance is not one already."""
    if "H2O" in substance.formula:
        return substance
    formula = f"{substance.formula}(H2O){water}"
    return Substance(formula, compute_molar_mass(formula), substance.ions)


def find_ion(component: str) -> str:
    """Return the ion that a component is, "mg" for "magnesium" and "mg2+", or "" if it is none."""
    names = [
        re.sub(r"[0-9]*[+-]+$", "", word)
        for word in component.split()
        # "SO4 2-" has its charge as a word.
        if word not in ("ion", "total", "dissolved") and not re.fullmatch(r"[0-9]*[+-]*", word)
    ]
    return ION_WORDS.get(names[0], "") if len(names) == 1 else ""


def get_ion_formula(ion: str) -> str:
    """Return the formula of an ion: "Cl" for "cl"."""
    return _IONS[ion][0]


def has_source(ion: str, words: Iterable[str]) -> bool:
    """Return whether a text with these words may bring the ion: it names it, a salt of it or a mixture of many salts."""
    symbol, names = _IONS[ion]
    for word in words:
        if word in MIXED_SOURCES or word in names.split() or word.rstrip("+-0123456789") == ion or word == ion:
            return True
        if (substance := _SUBSTANCES.get(frozenset({word}))) is not None and ion in substance.ions:
            return True
        # Formulas that are not in the table: "k2hpo4" has "po4". Elements of two letters only, "c" and "k" are in many words.
        if any(c.isdigit() for c in word) and len(symbol) > 1 and symbol.lower() in word:
            return True
    return False
