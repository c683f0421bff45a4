"""A local server that imitates the provider APIs, answers for every role, and injects faults on request.

As a command: `python -m simulation.scripted_server --port 8765`; in code: `with run_in_thread() as server`.

May import: nothing else of ours.
"""

from simulation.scripted_server.rules import FAULTS, Rule
from simulation.scripted_server.running import Server, running, spawned

__all__ = ["FAULTS", "Rule", "Server", "running", "spawned"]
