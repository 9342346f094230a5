"""What a spec that is well formed may still have wrong: a module for each part of it."""
