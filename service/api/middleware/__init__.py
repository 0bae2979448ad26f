"""What surrounds every request: its log line, and the check of its API key."""
