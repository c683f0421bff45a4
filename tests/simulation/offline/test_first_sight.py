"""A material shows the same properties before any action and after one that does not change it."""

import pytest
from django.conf import settings

from simulation.lab import catalogue, experiments
from simulation.lab.materials import build_inventory
from simulation.offline.vessels import Vessel

CATALOGUE, _ = catalogue.load_catalogue(settings.FIXTURES_DIR / "actions")
SPECS = {spec.slug: spec for spec, _ in experiments.load_experiments(settings.FIXTURES_DIR / "experiments", CATALOGUE)}


@pytest.mark.parametrize("slug", sorted(SPECS))
def test_initial_material_shows_the_same_properties_after_a_step_that_does_not_change_it(slug: str) -> None:
    for material in build_inventory(SPECS[slug].initial_materials(), seed=1):
        assert dict(Vessel.from_material(material, now=0).build_new_material().properties) == dict(
            material.properties
        ), material.name
