"""Jobs: longer work that a page or a command requests, done by any worker and never twice.

A job is a row. Equal requests share one job while it is under way. A handler registers itself for one kind and
writes only through its `Work`, under the job's lease. Files of jobs are stored in the database in pieces, because
workers may run on other hosts (`job_files`).

May import: simulation.leases, simulation.models, wetbench_site.
"""

from simulation.jobs.jobs import JobFailed, Outcome, Work, register_handler, request_job

__all__ = ["JobFailed", "Outcome", "Work", "register_handler", "request_job"]
