"""Verbs that change a running switch, from `apply` to `reconcile`."""
