"""The HTTP interface: routes, parsing, middleware, problems and the OpenAPI document.

Imports ``sessions``, ``models``, ``engine``, ``learners``, ``api_keys`` and leaves.
"""
