"""What a worker keeps in memory of sessions: decoded versions, and how many of the latest events were surplus."""
