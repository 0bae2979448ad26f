"""Replays of the paper's streams, over HTTP or in process."""
