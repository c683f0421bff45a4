"""A material shows the same properties before any action and after one that does not change it."""

import pytest

from simulation.lab.materials import build_inventory
from simulation.offline.vessels import Vessel
from tests.support.data_files import load_specs

SPECS = load_specs()


@pytest.mark.parametrize("slug", sorted(SPECS))
def test_initial_material_shows_the_same_properties_after_a_step_that_does_not_change_it(slug: str) -> None:
    for material in build_inventory(SPECS[slug].initial_materials(), seed=1):
        assert dict(Vessel.from_material(material, now=0).build_new_material().properties) == dict(
            material.properties
        ), material.name
