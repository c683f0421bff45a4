"""python tests/audit.py LOCK...: known vulnerabilities in what the lock files pin, by pip-audit; run by `make audit`.

Ends with 1 if there are any. What could not be looked up, offline for one, is told and fails nothing.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(locks: list[str]) -> int:
    found = 0
    for lock in locks:
        report = audited(lock)
        if report is None:
            print(f"{lock}: NOT AUDITED; the vulnerability database could not be reached")
            continue
        print(*lines(lock, report), sep="\n")
        found += sum(len(package.get("vulns", ())) for package in report)
    return 1 if found else 0


def audited(lock: str) -> list[dict[str, Any]] | None:
    """What pip-audit says of each package; None where it said nothing."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        told = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--timeout", "20"]
        command = [Path(sys.executable).with_name("pip-audit"), *told, "-r", lock, "-f", "json", "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not out.exists():
            print(done.stderr.strip()[-500:], file=sys.stderr)
            return None
        report: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["dependencies"]
        return report


def lines(lock: str, report: list[dict[str, Any]]) -> list[str]:
    """What to tell of one lock file."""
    unknown = [package["name"] for package in report if "skip_reason" in package]
    told = [
        f"{lock}: {package['name']} {package['version']} has {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'nothing yet'}"
        for package in report
        for fault in package.get("vulns", ())
    ]
    if unknown:
        told.append(
            f"{lock}: {len(unknown)} of {len(report)} packages NOT AUDITED; the database did not know or answer for them"
        )
    return told or [f"{lock}: {len(report)} packages, none with a known vulnerability"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
