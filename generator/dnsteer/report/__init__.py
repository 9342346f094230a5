"""One HTML file that says all about a running switch now, to attach to a ticket."""
