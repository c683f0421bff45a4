"""Ten attempts to break out of a sandbox, for `manage.py sandbox_escapes` and the tests.

`attempts.run_escapes` runs the programs `inside/escape_*.py` and judges what they and the host saw. `bystander.py` is a
process of the host that must stay untouched.
"""
