"""Verbs that change a running switch: `apply`, `rollback`, `restore`, `drain`, `down`, `reconcile`."""
