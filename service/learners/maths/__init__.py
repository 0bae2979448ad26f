"""Mathematics that several learners share.

Imports nothing else of the project but the array types of ``learners.base``.
"""
