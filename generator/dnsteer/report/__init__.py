"""One HTML file that says all about a running switch now, to attach to a ticket; and what such files are made of."""
