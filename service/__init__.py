"""Bandit online learning with unknown delays, as an HTTP service."""
