"""Estimates how fast hardware forwards a spec's packets, from published measurements (docs/capacity.md)."""
