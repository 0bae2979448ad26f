"""Secrets that stand in files, such as those that Docker and Kubernetes mount, and not in the environment."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def read_secret(file: Path) -> str:
    """Return the text of a file without the line break at its end.

    Raises
    ------
    ValueError
        where it can't be read, is no UTF-8 or is empty; the text shows nothing of it.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("can't be read: not UTF-8") from None
    if not (secret := text.rstrip("\r\n")):
        raise ValueError("is empty")
    return secret


def with_password(url: str, password: str) -> str:
    """Put a password into a store URL, with its special characters encoded.

    Parameters
    ----------
    url : of the store, with a user or without, and no password
    password : as it is, without encoding

    Raises
    ------
    ValueError
        where the URL has a password already, or can have none.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme == "memory":
        raise ValueError("this store has no password")
    authority, slash, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    if ":" in user:
        raise ValueError("the store URL has a password already")
    return f"{scheme}://{user if at else ''}:{quote(password, safe='')}@{hosts}{slash}{path}"
