"""Which backend each slot of a pool names: assignment, members, and who is out. Pure functions."""
