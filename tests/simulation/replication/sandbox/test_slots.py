"""Slots limit how many sandboxes run at once."""

import os
import signal
import subprocess
import sys

from simulation.replication.sandbox.slots import take_slot


def test_slots_are_held_until_the_block_ends(tmp_path):
    folder = tmp_path / "slots"
    with take_slot(folder, 2) as first, take_slot(folder, 2) as second, take_slot(folder, 2) as third:
        assert (first, second, third) == (True, True, False)
    with take_slot(folder, 1) as again:
        assert again


def test_slot_is_free_again_when_its_holder_was_killed(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from simulation.replication.sandbox.slots import take_slot\n"
        "with take_slot(Path(sys.argv[1]), 1) as taken: print(taken, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        with take_slot(tmp_path, 1) as taken:
            assert not taken
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with take_slot(tmp_path, 1) as taken:
        assert taken
