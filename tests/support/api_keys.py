"""API keys of every role, with prefixes and limits."""

import hashlib
import json

from service.settings import SecretText, Settings

ADMIN, CLIENT, SHOP, SETUP = (f"{name}-0123456789abcdef" for name in ("admin", "client", "shop", "setup"))
KEYS = [
    {"name": "ops", "role": "admin", "key": ADMIN},
    {"name": "app", "role": "client", "sha256": hashlib.sha256(CLIENT.encode()).hexdigest()},
    {"name": "shop", "role": "client", "key": SHOP, "session_prefix": "shop-", "max_body_bytes": 100},
    {"name": "setup", "role": "admin", "key": SETUP, "session_prefix": "shop-", "max_sessions": 2, "max_arms": 4},
]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def settings(keys):
    return Settings(api_keys=SecretText(keys if isinstance(keys, str) else json.dumps(keys)))
