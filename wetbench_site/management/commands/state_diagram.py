"""python manage.py state_diagram > docs/states.md"""

from collections.abc import Iterator, Mapping
from typing import Any

from ratings.models import Study
from simulation.models import CodeEpisode, Episode, Job, Twin
from wetbench_site.safe_output import SafeCommand


class Command(SafeCommand):
    help = "Print the permitted status changes of episodes, twins, code episodes, jobs and studies as Mermaid diagrams."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(format_states_page())


def format_states_page() -> str:
    """Return the content of docs/states.md."""
    lines = ["# States", "", "Printed by `python manage.py state_diagram`; a test fails when this page is stale."]
    for model in (Episode, Twin, CodeEpisode, Job, Study):
        lines += [
            "",
            f"## {model.__name__}",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *_format_transitions(model.MOVES),
            "```",
        ]
    return "\n".join(lines)


def _format_transitions(moves: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    yield f"    [*] --> {next(iter(moves))}"
    for state, next_states in moves.items():
        for end in next_states or ("[*]",):
            yield f"    {state} --> {end}"
