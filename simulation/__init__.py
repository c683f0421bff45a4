"""The laboratory: episodes, the roles that play them, and the twins made of their transitions."""
