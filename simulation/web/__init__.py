"""The pages of the laboratory, for staff: views and forms.

A view fetches what this user may see, validates a form, calls one function of another package, and renders a page or
a fragment. `replication/` has the pages of replication tasks.

May import: simulation.calls, simulation.casts, simulation.checker, simulation.code_runs, simulation.lab, simulation.llm,
simulation.models, simulation.providers, simulation.replication, simulation.runs, wetbench_site.
"""

from simulation.web.access import StaffRequest, staff_only

__all__ = ["StaffRequest", "staff_only"]
