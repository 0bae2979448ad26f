"""Sessions in Redis or Valkey: one server, sentinels, or a cluster."""
