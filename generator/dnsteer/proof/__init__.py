"""Proof on a real switch: packets, what should happen to them by the spec, and what did."""
