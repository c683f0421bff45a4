"""How far a study is: counts, times per item, and whether its stop rule is met."""
