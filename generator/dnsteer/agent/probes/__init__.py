"""Probes: what is asked of a backend, how, and whether its answer is good."""
