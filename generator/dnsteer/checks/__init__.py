"""Rules that a well-formed spec must keep: a module for each part of the spec."""
