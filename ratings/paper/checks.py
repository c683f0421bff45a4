"""System checks of the rating application. Every command runs them, and `manage.py check` lists their errors."""

from typing import Any

from django.core.checks import CheckMessage, Error


def check_paper_values(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Return an error for each problem of fixtures/paper_values.json, with its line and key."""
    from ratings.results import paper_values  # not at start-up, only where checks run

    try:
        paper_values.read_paper_values(paper_values.PATH)
    except paper_values.PaperValuesError as error:
        return [
            Error(problem, hint="Correct the file (docs/paper.md).", id="wetbench.E009") for problem in error.problems
        ]
    return []
