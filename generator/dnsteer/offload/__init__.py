"""Whether hardware takes the datapath flows of a spec: capability profiles and verdicts."""
