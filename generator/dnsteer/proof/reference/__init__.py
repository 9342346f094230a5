"""What should happen to a packet, from the spec alone."""
