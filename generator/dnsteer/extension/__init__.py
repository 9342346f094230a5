"""The extension beside a running switch: its program, its control socket, and handover together with the tables."""
