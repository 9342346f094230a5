"""The pipeline: a module for each OpenFlow table; the template of the same name renders its rows as flows."""
