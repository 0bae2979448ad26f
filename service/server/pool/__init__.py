"""What the workers of one service share: the listening socket, and a board on which each says that it lives.

It imports nothing else of the service.
"""
