"""What a running switch does: the verbs that only look."""
