"""A report of what the laboratory can do: every reference protocol run offline, and the results of the checker.

May import: simulation.casts, simulation.checker, simulation.lab, simulation.offline.

Without Django.
"""

from simulation.lab_report.report import LabReport

__all__ = ["LabReport"]
