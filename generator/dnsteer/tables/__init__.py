"""The pipeline: a module for each OpenFlow table. Its template of the same name spells its rows as flows."""
