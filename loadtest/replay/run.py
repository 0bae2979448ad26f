"""From the flags of ``replay`` to a stream, a session and its driver, and the replay in a terminal."""

from __future__ import annotations

import json
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx

from loadtest.client import Client
from loadtest.errors import LoadTestError, ServiceError
from loadtest.replay.jester import read_jester
from loadtest.replay.replay import Record, Replay
from loadtest.replay.session import ClickStream, Driver, plays_points
from loadtest.replay.worlds import World, bco_synthetic, jester_clicks, mab_jester, mab_synthetic
from loadtest.terminal import print_note, progress_bar, stoppable

PROGRESS_EVERY = 50
"""Slots between two updates of the progress bar."""


class Scenario(StrEnum):
    """The stream to replay."""

    JESTER = "jester"
    SYNTHETIC = "synthetic"
    CLICKS = "clicks"


def stream_of(scenario: Scenario, times: dict[str, Any], slots_per_second: float | None) -> ClickStream | None:
    """Return the times of a stream of clicks; None for the paper's streams, which know no time."""
    given = {name: value for name, value in times.items() if value is not None}
    if scenario is Scenario.CLICKS:
        if slots_per_second is not None:
            raise LoadTestError("clicks take --interval and --speed, not --slots-per-second")
        return ClickStream(**given)
    if given:
        raise LoadTestError(f"only clicks take --{next(iter(given)).replace('_', '-')}")
    return None


def world_of(scenario: Scenario, data: list[Path], learner: str, fill_seed: int) -> tuple[World, dict[str, Any]]:
    """Return the losses of the stream, and the summary's fields on their data."""
    if scenario is not Scenario.SYNTHETIC:
        ratings = read_jester(data)
        for text in ratings.warnings:
            print_note(f"warning: {text}")
        facts = {"fill_seed": fill_seed, "rated": ratings.rated, "warnings": ratings.warnings}
        world = (jester_clicks if scenario is Scenario.CLICKS else mab_jester)(ratings, fill_seed)
        return world, facts | {"data": [source._asdict() for source in ratings.sources]}
    if data:
        raise LoadTestError("the synthetic stream takes no --data")
    return (bco_synthetic() if plays_points(learner) else mab_synthetic()), {}


def options_of(texts: list[str]) -> dict[str, Any]:
    """Parse NAME=JSON into fields of the learner; a value that is not JSON is taken as text."""
    fields = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields


def connected(
    stack: ExitStack, address: str, retry_seconds: float, api_key: str | None, key_file: Path | None
) -> Client:
    """Return a client of the service at ``address``, which ``stack`` closes.

    Raises
    ------
    LoadTestError
        where the key can't be told, the address is not a URL, or nothing answers there now.
    """
    if key_file is not None:
        if api_key is not None:
            raise LoadTestError("give either --api-key or --api-key-file")
        try:
            api_key = key_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LoadTestError(f"--api-key-file {key_file}: can't be read") from error
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        http = stack.enter_context(httpx.Client(base_url=address, timeout=30.0, headers=headers))
    except httpx.InvalidURL as error:
        raise LoadTestError(f"--url {address}: {error}") from error
    client = Client(http, retry_seconds)
    try:
        client.check_reachable()
    except ServiceError as error:
        hint = "start a service there, name another with --url, or try --in-process"
        raise LoadTestError(f"{error}; {hint}") from error
    return client


def play_under_a_bar(replaying: Replay, slots: int, label: str, *, drain: bool) -> Record:
    """Play a replay under a progress bar; a first signal ends it after its slot."""
    with progress_bar(label, slots) as advance, stoppable() as stops:

        def played(slot: int) -> None:
            if slot % PROGRESS_EVERY == 0 or slot == slots:
                advance(slot % PROGRESS_EVERY or PROGRESS_EVERY)

        return replaying.run(drain=drain, stopped=lambda: bool(stops), advance=played)


def described(driver: Driver, record: Record) -> dict[str, Any]:
    """How the session was driven, where it can still be asked."""
    if record.counts is None:
        return {"driver": "unknown"}
    facts = driver.describe()
    return facts | {"rates": (facts["parameters"] or {}).get("rates")}
