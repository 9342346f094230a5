"""The extension of a running switch: its program, its control socket, changes together with the tables."""
