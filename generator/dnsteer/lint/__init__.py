"""What hardware will do with a spec, as findings."""
