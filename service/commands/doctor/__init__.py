"""``doctor``: what of the settings, the store and a running service should be changed, one line each."""
