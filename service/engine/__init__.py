"""One session's arithmetic and book-keeping, without I/O: a learner, its draws, its counts, its arms.

Imports ``learners``.
"""
