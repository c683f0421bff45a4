"""Rule-based checks of one transition from any simulator: checks L01 to L24.

`reading` parses a transition as raters see it, with every stated quantity as a claim. Each check then searches for one kind of impossibility: amounts that are
not conserved (`volumes`, `concentrations`, `weights`), materials that cannot be (`identity`, `conditions`), records
that contradict the action (`settings`, `observations`, `values`), claims that contradict each other (`relations`). `checks` declares and runs all of them;
`suite` measures them on labelled transitions.

May import: simulation.lab.

Without Django.
"""

from simulation.checker.checks import check_transition
from simulation.checker.findings import Finding
from simulation.checker.reading.transition import TransitionError

__all__ = ["Finding", "TransitionError", "check_transition"]
