"""From a spec to a plan: the rows of all tables, how much hardware they take, and which masks. Pure functions."""
