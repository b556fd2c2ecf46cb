"""What leads out of a sandbox, and into it."""
