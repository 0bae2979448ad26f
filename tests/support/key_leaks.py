"""Every key a test leaves has a deadline or is of a kind that is permanent by declaration."""

import re

import redis

KEY = re.compile(r"(?P<session>[^{}]+:\{[^{}]+\})(?P<part>|:slots|:log|:segments|:played|:seen:\d+)")


def leaks(client: redis.Redis) -> list[str]:
    """Keys without a deadline that should have one, and parts of sessions that are gone."""
    return sorted(text for key in client.scan_iter() if not _accounted(client, text := key.decode()))


def _accounted(client: redis.Redis, key: str) -> bool:
    if client.ttl(key) != -1:
        return True
    parts = KEY.fullmatch(key)
    if re.fullmatch("[^{}:]+:tokens", key):
        return True
    if parts is None or parts["part"].startswith(":seen"):
        return False
    return client.hexists(parts["session"], "version") and not client.hexists(parts["session"], "expires_at")
