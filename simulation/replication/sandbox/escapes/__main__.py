"""python -m simulation.replication.sandbox.escapes: run the ten escapes without Django, and print each as a line of JSON."""

import json
import sys

from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.sandbox.escapes.attempts import escape_to_json, run_escapes


def main() -> int:
    sandbox = open_sandbox()
    print(json.dumps({"backend": sandbox.name}))
    all_contained = True
    for escape in run_escapes(sandbox):
        print(json.dumps(escape_to_json(escape)), flush=True)
        all_contained = all_contained and escape.contained
    return 0 if all_contained else 1


if __name__ == "__main__":
    sys.exit(main())
