"""Findings about what hardware does with a spec."""
