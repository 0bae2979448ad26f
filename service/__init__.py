"""Bandit online learning with unknown delays, as an HTTP service."""

__version__ = "0.2.0.dev0"
