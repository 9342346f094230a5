"""Inspect a machine for what a spec's switch needs. Changes nothing and needs no privileges."""
