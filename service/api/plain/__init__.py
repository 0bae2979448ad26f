"""How plain requests are read, which ``hot_routes`` answers before FastAPI."""
