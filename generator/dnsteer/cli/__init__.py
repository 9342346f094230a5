"""The `dnsteer` command: one thin module per verb."""
