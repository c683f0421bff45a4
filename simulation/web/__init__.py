"""The pages of the laboratory, for staff: views and forms.

A view fetches what this user may see, validates a form, calls one function of another package, and renders a page or
a fragment.

May import: simulation.calls, simulation.casts, simulation.checker, simulation.lab, simulation.models,
simulation.providers, simulation.runs, wetbench_site.
"""

from simulation.web.access import StaffRequest, staff_only

__all__ = ["StaffRequest", "staff_only"]
