"""One connection of a client: reading requests, refusing what is none, writing answers, and its end.

It imports ``errors`` alone of the rest of the service.
"""
