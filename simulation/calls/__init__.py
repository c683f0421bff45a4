"""Calls of language models: logged before they are sent and completed when the answer arrives.

`journal` returns a stored answer instead of sending its request again. `ledger` stores calls and reserves their
worst-case cost before a request leaves. `gates` and `pace` limit how many calls of one key are under way. `shelf`
stores long texts of requests once. `spending` sums what runs have used.

May import: simulation.casts, simulation.leases, simulation.models, simulation.providers, wetbench_site.
"""

from simulation.calls.journal import Dial, Line, dial

__all__ = ["Dial", "Line", "dial"]
