"""Packets of one VIP or backend, by mirrors of the running bridge that end by themselves."""
