"""Words of laboratory records in German, French, Spanish and Italian, and their English equivalents.

A word that also means something else in English (French "sec", Spanish "media") is left out, because most records are
in English. Accents are removed first: "pesée" is "pesee".
"""

import re
import unicodedata
from functools import lru_cache

# English word: its equivalents without accents, in singular and plural where they are irregular.
_EQUIVALENTS = {
    "volume": "volumen volumenes volumina fullvolumen rauminhalt",
    "mass": "masse massen masa masas massa einwaage auswaage peso pesos poids gewicht",
    "weighing": "pesee pesees pesada pesata wagung wiegung",
    "gross": "brut brute bruto bruta brutto lordo bruttomasse bruttogewicht",
    "net": "netto nette neto neta nettomasse nettogewicht",
    "tare": "tara leermasse leergewicht taragewicht taramasse",
    "empty": "vide vides leer leere leerer leeres vacio vacia vuoto vuota",
    "full": "voll volle voller pleno llena lleno pleine plein",
    "wet": "humide humides feucht feuchte feuchter feuchtes nass nasse humedo humeda umido umida mojado feuchtmasse nassmasse",
    "dry": "trocken trockene trockener trockenes seche seches seco seca secos secas secco secca trockenmasse",
    "water": "eau wasser agua acqua",
    "loss": "perte pertes verlust verluste perdida perdidas perdita trockenverlust masseverlust massenverlust gewichtsverlust",
    "lost": "perdu perdue verloren perdido perduto entwichen",
    "moisture": "humidite humedad umidita feuchtigkeit wassergehalt",
    "residue": "residu ruckstand residuo",
    "crucible": "creuset creusets tiegel filtertiegel glasfiltertiegel crisol crisoles crogiolo",
    "vessel": "gefass gefaess behalter behaelter recipiente vaso contenitore",
    "tube": "rohrchen roehrchen reagenzglas tubo tubos provetta",
    "flask": "kolben messkolben fiole matraz beuta ballon",
    "bottle": "flasche flaschen flacon botella bottiglia frasco",
    "vial": "flaschchen vialchen",
    "dish": "schale schalchen petrischale boite coupelle capsula",
    "well": "pocillo pocillos puits napfchen vertiefung pozzetto kavitat",
    "plate": "platte mikrotiterplatte",
    "sample": "proben echantillon echantillons muestra muestras campione",
    "precipitate": "niederschlag precipite precipitado precipitato fallung",
    "density": "dichte densite densidad densita schuttdichte stampfdichte",
    "concentration": "konz konzentration concentracion concentrazione gehalt",
    "temperature": "temperatur temperatura",
    "duration": "dauer duree duracion durata",
    "time": "zeit temps tiempo tempo",
    "start": "beginn debut inicio inizio",
    "end": "ende",
    "remaining": "restante restant restants restlich restliche ubrig queda quedan quedo resto reste sobrante rimanente",
    "mean": "mittelwert mittel moyenne promedio",
    "total": "gesamt insgesamt totale totales summe suma somme",
    "cell": "zelle zellen cellule cellules celula celulas cellula lebendzellen zellzahl zelldichte lebendzellzahl",
    "living": "lebend lebende vivant vivante vivantes vivas vivos",
    "dead": "tote morte mortes muerta muertas muertos toten",
    "number": "anzahl numero",
    "solution": "lsg losung loesung solucion soluzione",
    "powder": "pulver poudre polvo polvere",
    "capacity": "fassungsvermoegen capacidad capacite kapazitat fassungsvermogen nennvolumen nutzvolumen contenance tope capienza",
    "microtube": "eppi eppis microtubo microtubos reaktionsgefass reaktionsgefasse",
    "fill": "fullung fullstand fuellung remplissage llenado riempimento",
    "quantity": "menge cantidad quantite quantita",
    "content": "inhalt contenu contenido contenuto",
    "contains": "enthalt enthaelt contient contiene",
    "state": "zust zustand etat estado",
    "liquid": "flussig fluessig liquide liquido",
    "frozen": "gefroren eingefroren schockgefroren tiefgefroren congele congelado congelato",
    "thawed": "aufgetaut decongele descongelado",
    "added": "zugesetzt zugegeben ajoute anadido aggiunto",
    "polybrene": "polybren polibreno",
    "each": "jeweils chacun chaque cada ciascuno",
}  # fmt: skip
_ENGLISH = {word: english for english, listed in _EQUIVALENTS.items() for word in listed.split()}
_WORD = re.compile(r"[a-z]{3,}")
_KEPT = frozenset("µ°Δ½")


@lru_cache(maxsize=8192)
def remove_accents(text: str) -> str:
    """Return a text without accents: "pesée" as "pesee" and "Größe" as "Grosse". Signs of units stay as they are."""
    if text.isascii():
        return text
    return "".join(
        character
        if character in _KEPT
        else "ss"
        if character == "ß"
        else "".join(c for c in unicodedata.normalize("NFD", character) if not unicodedata.combining(c))
        for character in text
    )


# Quantities that an instrument measures; their names have no other meaning in English.
_QUANTITIES = {
    "melting point": "schmelzpunkt|point de fusion|punto de fusion|punto di fusione|schmelztemperatur",
    "refractive index": "brechungsindex|brechzahl|indice de refraction|indice de refraccion", "viscosity": "viskositat|viscosite|viscosidad|viscosita",
    "conductivity": "leitfahigkeit|conductivite|conductividad|conducibilita", "osmolality": "osmolalitat|osmolalite|osmolalidad",
    "surface tension": "oberflachenspannung|tension superficielle|tension superficial", "contact angle": "kontaktwinkel|angle de contact|angulo de contacto",
    "absorbance": "absorbancia|extinktion|assorbanza", "viability": "viabilitat|vitalitat|viabilite|viabilidad", "dissolved oxygen": "geloster sauerstoff|oxygene dissous|oxigeno disuelto",
}  # fmt: skip
_ENGLISH_QUANTITIES = {name: quantity for quantity, names in _QUANTITIES.items() for name in names.split("|")}
_LONGEST_FIRST = sorted(_ENGLISH_QUANTITIES, key=len, reverse=True)
_QUANTITY = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in _LONGEST_FIRST)})\b", re.IGNORECASE)


def translate_quantities(text: str) -> str:
    """Return a text with the names of measured quantities of other languages in English."""
    return _QUANTITY.sub(lambda match: _ENGLISH_QUANTITIES[match[0].lower()], remove_accents(text))


@lru_cache(maxsize=8192)
def translate_label(text: str) -> str:
    """Return a label in lower case, with the words of other languages in English."""
    return _WORD.sub(lambda match: _ENGLISH.get(match[0], match[0]), remove_accents(text).lower())


def translate_word(word: str) -> str:
    """Return the English equivalent of a word in lower case, or the word unchanged."""
    return _ENGLISH.get(word, word)
