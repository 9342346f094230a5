"""The packets that prove a spec."""
