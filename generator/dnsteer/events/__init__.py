"""What the agent says: events with fields, as text, logfmt or JSON, and in systemd's journal."""
