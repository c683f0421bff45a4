"""Pages of a study for its admins: builder, opening, raters, team, imports, exports, audits, vetting."""
