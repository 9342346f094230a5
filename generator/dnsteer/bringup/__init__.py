"""Bring-up: scripts and units that make a machine ready for a spec's switch, and whether it is."""
