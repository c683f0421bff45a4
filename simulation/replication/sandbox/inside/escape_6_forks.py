"""Start more processes than allowed."""

import os
import time

from simulation.replication.sandbox.inside.attempting import attempt, report


def fork_often() -> None:
    for _ in range(300):
        if not os.fork():
            time.sleep(60)
            os._exit(0)


attempt("have 300 processes", fork_often)
report("end", "")
