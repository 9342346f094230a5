"""What the operator writes: the typed model, reading it from YAML, and all that can be wrong with it."""
