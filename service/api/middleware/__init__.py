"""What surrounds every request: its log line, its API key."""
