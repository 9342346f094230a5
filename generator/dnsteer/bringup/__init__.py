"""Scripts and units that prepare a machine for a spec's switch."""
