"""Processes end when they are told to, however often they are told."""

import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import threading
from simulation.management.stopping import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.01):
    pass
"""


def test_a_burst_of_signals_ends_a_process_as_one_does() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for _ in range(50):
        try:
            os.kill(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.0005)
    # A signal that comes when the interpreter has put its handlers away ends it too: what counts is that it ends.
    assert process.wait(timeout=20) in (0, -signal.SIGTERM)
    process.stdout.close()
