"""``demo``: a service with simulated visitors of a shop, to be looked at in the terminal and in a browser."""
