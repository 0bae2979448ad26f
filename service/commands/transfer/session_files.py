"""A session's document as a file, and how it goes over HTTP: its bytes stay as the service wrote them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from ...client import BadAnswerError, NoAnswerError
from ...client.calls import api_error
from ..screen import KEY_VARIABLE

SUFFIX = ".session.json"
SECONDS = 600.0
"""For one document: it may have 200 MB."""


@contextmanager
def service_at(url: str) -> Iterator[httpx.Client]:
    """Yield connections to a service; the API key comes from the environment.

    Raises
    ------
    NoAnswerError
        where the service does not answer.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as http:
        try:
            yield http
        except httpx.HTTPError as error:
            raise NoAnswerError(f"{url}: {type(error).__name__}: {error}") from error


def export_to(http: httpx.Client, session_id: str, folder: Path) -> Path:
    """Write the document of a session to a new file, which appears whole or not at all.

    Parameters
    ----------
    http : connections of ``service_at``
    session_id : of the session
    folder : exists already; a file of this name is replaced

    Returns
    -------
    The file, named by the session.

    Raises
    ------
    ApiError, BadAnswerError
        where the service refuses; the latter where it gives no reason.
    OSError
        where the file can't be written.
    """
    target = folder / f"{session_id}{SUFFIX}"
    begun = target.with_suffix(".part")
    with http.stream("GET", f"/v1/sessions/{session_id}/export") as response:
        if not response.is_success:
            response.read()
            raise _refusal(response)
        with begun.open("wb") as file:
            for part in response.iter_bytes():
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    begun.replace(target)
    return target


def import_from(http: httpx.Client, file: Path) -> Mapping[str, Any]:
    """Create the session of a file, and return its view.

    Parameters
    ----------
    http : connections of ``service_at``
    file : as ``export_to`` writes it

    Raises
    ------
    ApiError, BadAnswerError
        where the service refuses; the latter where it gives no reason.
    OSError
        where the file can't be read.
    """
    response = http.post(
        "/v1/sessions/import", content=file.read_bytes(), headers={"Content-Type": "application/json"}
    )
    return _json(response)


def view_of(http: httpx.Client, session_id: str) -> Mapping[str, Any]:
    """Return the view of a session.

    Parameters
    ----------
    http : connections of ``service_at``
    session_id : of the session

    Raises
    ------
    ApiError, BadAnswerError
        where the service refuses; the latter where it gives no reason.
    """
    return _json(http.get(f"/v1/sessions/{session_id}"))


def _json(response: httpx.Response) -> Mapping[str, Any]:
    if not response.is_success:
        raise _refusal(response)
    found: Mapping[str, Any] = response.json()
    return found


def _refusal(response: httpx.Response) -> Exception:
    try:
        problem = json.loads(response.content)
    except ValueError:
        return BadAnswerError(f"{response.url}: status {response.status_code} without a reason")
    return api_error(response.status_code, problem, response.headers.get("X-Request-Id"))
