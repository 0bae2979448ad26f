"""The words of the command line beside ``serve`` and ``evaluate``, one file or folder each.

All but ``doctor`` call a service through the Python client. They need the extra ``cli``.
"""
