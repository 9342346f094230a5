"""What hardware does with a rendered spec: capability profiles, verdicts on datapath flows, masks, capacity."""
