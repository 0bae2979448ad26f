"""The words of the command line beside ``serve`` and ``evaluate``; ``run`` says which file has which.

All but ``doctor`` call a service through the Python client. They need the extra ``cli``.
"""
