"""What studies promise of their rows, derived again from them: what `manage.py verify` looks at."""
