"""The extension's part of a plan."""
