"""A server of our own in a data folder, started as a child process."""
