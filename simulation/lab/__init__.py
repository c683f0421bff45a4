"""The core: materials, actions, outcomes and one attempt at an experiment. No Django, no network, no clock."""
