"""Look at a machine and say what is missing for a spec's switch. Changes nothing and needs no privileges."""
