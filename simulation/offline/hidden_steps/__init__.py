"""Rule-based agents for protocols with hidden steps: one fills the gaps, for the other the first steps are done."""
