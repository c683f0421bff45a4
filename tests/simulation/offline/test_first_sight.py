"""A material shows the same properties before any action and after one that does not change it."""

import pytest
from django.conf import settings

from simulation.lab import catalogue, experiments
from simulation.lab.materials import place_all
from simulation.offline.vessels import Vessel

CATALOGUE, _ = catalogue.read_directory(settings.FIXTURES_DIR / "actions")
SPECS = {spec.slug: spec for spec, _ in experiments.read_directory(settings.FIXTURES_DIR / "experiments", CATALOGUE)}


@pytest.mark.parametrize("slug", sorted(SPECS))
def test_unchanged_material_shows_the_same_properties(slug: str) -> None:
    for material in place_all(SPECS[slug].drafts(), seed=1):
        assert dict(Vessel.open(material, now=0).draft().properties) == dict(material.properties), material.name
