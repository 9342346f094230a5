"""What a running switch does now: the verbs that only read."""
