"""The engine: workers that claim rows and run them, one unit of work at a time.

`workers` has the embedded worker, the dispatcher and the periodic repairs; `tasks` has the Celery tasks; `runner`
assembles the roles of a row and runs one unit of an episode or a twin.

May import: simulation.calls, simulation.casts, simulation.jobs, simulation.lab, simulation.leases, simulation.llm,
simulation.models, simulation.runs, wetbench_site.
"""
