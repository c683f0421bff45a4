"""python tests/audit.py LOCK...: report known vulnerabilities of the locked packages, by pip-audit; run by `make audit`.

The exit status is 1 if there are any. Packages that could not be checked, for example offline, are listed but do not fail.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(locks: list[str]) -> int:
    n_vulnerabilities = 0
    for lock in locks:
        report = audit_lock_file(lock)
        if report is None:
            print(f"{lock}: NOT AUDITED; the vulnerability database could not be reached")
            continue
        print(*format_report(lock, report), sep="\n")
        n_vulnerabilities += sum(len(package.get("vulns", ())) for package in report)
    return 1 if n_vulnerabilities else 0


def audit_lock_file(lock: str) -> list[dict[str, Any]] | None:
    """Return pip-audit's report on each package, or None if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        options = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--timeout", "20"]
        command = [Path(sys.executable).with_name("pip-audit"), *options, "-r", lock, "-f", "json", "-o", out]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if not out.exists():
            print(process.stderr.strip()[-500:], file=sys.stderr)
            return None
        report: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["dependencies"]
        return report


def format_report(lock: str, report: list[dict[str, Any]]) -> list[str]:
    """Return the lines to print for one lock file."""
    unknown = [package["name"] for package in report if "skip_reason" in package]
    report_lines = [
        f"{lock}: {package['name']} {package['version']} has {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'nothing yet'}"
        for package in report
        for fault in package.get("vulns", ())
    ]
    if unknown:
        report_lines.append(
            f"{lock}: {len(unknown)} of {len(report)} packages NOT AUDITED; the database does not list them or did not answer"
        )
    return report_lines or [f"{lock}: {len(report)} packages, none with a known vulnerability"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
