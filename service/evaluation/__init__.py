"""What a decision log says of policies that did not act: ``delayed-bandits evaluate``.

Imports nothing else of the project.
"""
