"""Long work that lets other requests run in between.

Imports nothing else of the project.
"""
