"""How long work lets other requests run in between.

Imports nothing else of the project.
"""
