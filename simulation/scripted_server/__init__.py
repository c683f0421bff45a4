"""A local server that imitates the providers' APIs, answers for every role, and injects faults on request.

As a command: `python -m simulation.scripted_server --port 8765`; in code: `with run_in_thread() as server`.

May import: nothing else of ours.
"""

from simulation.scripted_server.rules import FAULTS, Rule
from simulation.scripted_server.start import Server, run_in_process, run_in_thread

__all__ = ["FAULTS", "Rule", "Server", "run_in_process", "run_in_thread"]
