"""What is reported to operators: logs, metrics and traces."""
