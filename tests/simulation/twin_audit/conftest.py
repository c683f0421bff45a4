"""Steps of two replicates and a note, as a rater sees them."""

import pytest

from simulation.twin_audit.pairs import TwinPair, build_step


def build_material(name, barcode="", **properties):
    return {
        "name": name,
        "barcode": barcode,
        "replaces": barcode,
        "properties": {"phase": "liquid", **properties},
        "available_for_use": "available_for_further_use",
        "environmental_condition": "room_temp",
    }


def build_transfer(source_after="8 mL", wells=("1 mL", "1 mL"), note="2 × 1.000 mL", action="Aliquot", **well):
    """Return a step that takes 1 mL of a buffer of 10 mL for each well."""
    outcome = {
        "new_materials": [
            build_material("Buffer", "MAT-1", volume=source_after),
            *(build_material(f"Well {number}", volume=volume, **well) for number, volume in enumerate(wells, 1)),
        ],
        "new_observations": [{"description": "Delivered from Buffer", "measurement_type": "note", "value": note}],
    }
    given = {"name": action, "materials": ["MAT-1"], "parameters": {"volume": "1 mL", "count": len(wells)}}
    return build_step([build_material("Buffer", "MAT-1", volume="10 mL")], given, outcome)


@pytest.fixture
def transfer():
    return build_transfer


@pytest.fixture
def pair():
    def build_pair(
        twin, original=None, experiment="a", error_type="obvious", field="new_materials[0].properties.volume"
    ):
        return TwinPair(experiment, error_type, "slip", field, original or build_transfer(), twin)

    return build_pair
