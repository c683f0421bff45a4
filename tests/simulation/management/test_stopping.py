"""Processes stop on SIGTERM or Ctrl-C, however often the signal is sent."""

import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import threading
from simulation.management.supervisor import stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.01):
    pass
"""


def test_shutdown_after_a_burst_of_signals_is_the_same_as_after_one() -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for _ in range(50):
        try:
            os.kill(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.0005)
    # A signal after the interpreter has removed its handlers ends it as well; the test only requires that it ends.
    assert process.wait(timeout=20) in (0, -signal.SIGTERM)
    process.stdout.close()
