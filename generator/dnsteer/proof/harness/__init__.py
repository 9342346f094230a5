"""A private switch that packets are put into."""
