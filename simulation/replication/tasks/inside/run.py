"""Run experiments of this code base: python run.py e1 [e2 ...], or python run.py --all.

Each experiment reads the files in data/ and prints one line with its results: RESULT e1 {"slope": 1.0}
"""

import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent


def convert_value(value: Any) -> Any:
    """Return a result as a value of JSON: numbers of numpy become plain numbers, its arrays become lists."""
    if isinstance(value, dict):
        return {str(name): convert_value(entry) for name, entry in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def main(arguments: list[str]) -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT / "code"))
    import experiments  # type: ignore[import-not-found]

    known = sorted(
        (name for name in vars(experiments) if re.fullmatch(r"e[1-9]\d?", name)), key=lambda name: int(name[1:])
    )
    chosen = known if arguments == ["--all"] else arguments
    if not chosen or any(name not in known for name in chosen):
        print(f"usage: python run.py {' | '.join(known)} | --all", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        try:
            results = convert_value(getattr(experiments, name)(ROOT / "data"))
            print(f"RESULT {name} {json.dumps(results, allow_nan=False)}", flush=True)
        except Exception:  # the code of an agent may fail in any way, and the other experiments still run
            failed += 1
            print(f"{name} failed:", file=sys.stderr)
            traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
