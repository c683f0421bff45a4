"""Flood the output, run for too long, or stay behind."""

import os
import sys
import time

if sys.argv[1] == "noise":
    sys.stdout.write("x" * 20_000_000)
elif sys.argv[1] == "sleep":
    time.sleep(1.5)
elif not os.fork():
    os.setsid()
    if not os.fork():
        time.sleep(30)  # its command line has the name that the host searches for
