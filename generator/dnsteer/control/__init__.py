"""Changes of a running switch: deploy, take backends out and back in, roll back, restore, and see how it stands."""
