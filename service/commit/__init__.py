"""How requests become commits: they queue by session; a batch is applied to a draft, and again after a conflict.

Imports ``serialization``, ``models``, ``engine``, ``learners``, ``store.base`` and leaves.
"""
