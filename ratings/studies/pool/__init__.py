"""The items of a study: what it could take, what is held back, and what opening it freezes."""
