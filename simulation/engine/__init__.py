"""The engine: workers that claim rows and run them, one unit of work at a time.

`workers` has the embedded worker and the periodic repairs; `notifications` has the dispatcher; `tasks` has the Celery tasks; `runner`
assembles the roles of a row and runs one unit of an episode or a twin. Units of code episodes are in `simulation.code_runs`.

May import: simulation.calls, simulation.casts, simulation.code_runs, simulation.jobs, simulation.lab, simulation.leases, simulation.llm,
simulation.models, simulation.runs, wetbench_site.
"""
