"""How many masks traffic can make of the tables: a bound computed from the flows, and an attack that tries to pass it."""
