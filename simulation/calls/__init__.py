"""Calls of language models: logged before they are sent and completed when the answer arrives.

`replay` returns a logged answer instead of sending its request again. `call_log` stores calls, with long texts only
once, and reserves their worst-case cost before a request leaves. `rate_limit` limits how many calls with one key are
under way at a time. `run_usage` sums what runs have used. `call_texts` reads the messages and the answer of a logged
call.

May import: simulation.casts, simulation.leases, simulation.models, simulation.providers, wetbench_site.
"""

from simulation.calls.replay import Connector, ModelConnection, connect

__all__ = ["Connector", "ModelConnection", "connect"]
