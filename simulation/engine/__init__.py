"""The engine: workers that claim rows and play them, one unit of work at a time.

`workers` has the embedded worker and the dispatcher; `tasks` has the Celery tasks; `runner` plays one unit of an
episode; `twinning` makes a twin; `players` assembles the roles of a row; `tidying` removes what has expired.

May import: simulation.calls, simulation.casts, simulation.jobs, simulation.lab, simulation.leases, simulation.llm,
simulation.models, simulation.runs, wetbench_site.
"""
