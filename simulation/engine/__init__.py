"""The engine: workers that claim rows and run them, one unit of work at a time.

`workers` has the embedded worker and the dispatcher; `tasks` has the Celery tasks; `runner` runs one unit of an
episode; `perturb` creates a twin; `role_sets` assembles the role set of a row; `cleanup` removes what has expired.

May import: simulation.calls, simulation.casts, simulation.jobs, simulation.lab, simulation.leases, simulation.llm,
simulation.models, simulation.runs, wetbench_site.
"""
