"""What the laboratory promises of its rows, derived again from them: what `manage.py verify` looks at."""
