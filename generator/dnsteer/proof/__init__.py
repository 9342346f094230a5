"""Sends packets through a private switch and checks every byte."""
