"""Ten attempts to break out of a sandbox, for `manage.py sandbox_escapes` and the tests.

`attempts.run_escapes` runs the programs `inside/escape_*.py` and judges their reports and the state of the host. `bystander.py` is a
process of the host that no attempt may reach.
"""
