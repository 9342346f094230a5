"""What a change of a running switch does to its clients: probes in the lab, while it is under load."""
