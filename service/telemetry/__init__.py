"""What is reported to operators: logs, metrics and traces.

Imports nothing else of the project but how a file with a secret is read.
"""
