"""Bandit online learning with unknown delays, as an HTTP service."""

__version__ = "0.2.0.dev0"

COMMAND = "service" if __name__ == "service" else "delayed-bandits"
"""What error messages of the command begin with: in a checkout the package, else the command of the wheel."""
