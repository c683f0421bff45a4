"""Parsers for rating tables of other tools. `spreadsheet_safe` protects cells from being read as formulas."""
