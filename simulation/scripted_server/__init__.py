"""A local server that imitates the providers' APIs and answers for every role, for runs without keys and without costs.

As a command: `python -m simulation.scripted_server --port 8765`; in code: `with run_in_process() as server`. The server for
tests, which injects faults and counts requests, is built on it.

May import: nothing else of ours.
"""

from simulation.scripted_server.server import Server, run_in_process

__all__ = ["Server", "run_in_process"]
