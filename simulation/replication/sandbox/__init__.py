"""One isolated command: a pure function of files, command and limits to exit status, output and files.

`choosing.open_sandbox()` returns the sandbox of this machine or raises SandboxUnavailable. `supervisor.py` runs inside the
sandbox; everything that it sends is hostile until `exchange` has checked it.
"""
