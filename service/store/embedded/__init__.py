"""A Redis or Valkey server on a data folder, as a child process of the service."""
