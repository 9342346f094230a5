"""The `dnsteer` command: a module for each verb, or for verbs of one kind, and what prints their results."""
