"""Changing a running switch: every verb that does so."""
