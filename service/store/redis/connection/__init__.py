"""How calls reach Redis: connections, retries, sentinels, cluster nodes, and what their failures mean."""
