"""Announce VIPs to routers while they work."""
