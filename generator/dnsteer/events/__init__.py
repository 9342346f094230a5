"""The log of the agent: events with fields, as text, logfmt or JSON, and in systemd's journal."""
