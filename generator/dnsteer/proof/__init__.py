"""Proof on a private switch: sends packets and compares the output with what the spec demands."""
