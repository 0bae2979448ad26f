"""Replays of the paper's streams against the service, over HTTP or in process."""
