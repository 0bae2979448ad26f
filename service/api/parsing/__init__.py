"""How requests are read: strict JSON bodies, limits of lists, validation errors."""
