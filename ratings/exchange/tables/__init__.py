"""Rating tables written by other tools, read strictly; `cells` makes text safe for spreadsheets."""
