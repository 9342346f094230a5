"""The extension under load, and its program by itself."""
