"""How requests become commits: they queue by session, and a batch is applied to a copy and tried again on conflict.

Imports ``serialization``, ``models``, ``engine``, ``learners``, ``store.base`` and leaves.
"""
