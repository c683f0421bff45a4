"""Pages of a study for its admins: building, opening, raters, roles, imports, exports, audits, vetting."""
