"""``export`` and ``import``: whole sessions to files and from them, so that they move to another store."""
