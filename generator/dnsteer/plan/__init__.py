"""From a spec to a plan: slots, numbers and logical rows of the pipeline. Pure functions, no I/O."""
