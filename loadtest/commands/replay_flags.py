"""Turn the flags of ``replay`` into a world, a plan and a driver."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx

from loadtest.client import Client
from loadtest.commands.output import print_note
from loadtest.errors import LoadTestError, ServiceError
from loadtest.replay.arm_worlds import mab_jester, mab_synthetic
from loadtest.replay.click_stream import ClickStream, plan_clicks
from loadtest.replay.click_worlds import jester_clicks
from loadtest.replay.driver import Driver
from loadtest.replay.http_driver import HttpDriver
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.jester import read_jester
from loadtest.replay.plan import Plan, RateChoice, World, plan_session, plays_points
from loadtest.replay.quadratic_worlds import bco_synthetic
from loadtest.replay.simulated_time import SimulatedTime


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


def key_of(api_key: str | None, file: Path | None) -> str | None:
    """Return the API key, given as it is or in a file.

    Raises
    ------
    LoadTestError
        where both are given, or the file can't be read.
    """
    if file is None:
        return api_key
    if api_key is not None:
        raise LoadTestError("give either --api-key or --api-key-file")
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadTestError(f"--api-key-file {file}: can't be read") from error


def connected(stack: ExitStack, address: str, retry_seconds: float, api_key: str | None) -> Client:
    """Return a client of the service at ``address``, which ``stack`` closes.

    Raises
    ------
    LoadTestError
        where the address is not a URL, or nothing answers there now.
    """
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        http = stack.enter_context(httpx.Client(base_url=address, timeout=30.0, headers=headers))
    except httpx.InvalidURL as error:
        raise LoadTestError(f"--url {address}: {error}") from error
    client = Client(http, retry_seconds)
    try:
        client.check_reachable()
    except ServiceError as error:
        raise LoadTestError(
            f"{error}; start a service there, name another with --url, or try --in-process"
        ) from error
    return client


def driver_of(plan: Plan, client: Client | None, clock: SimulatedTime) -> Driver:
    """Return what drives the session: over HTTP, or without a client in process by a simulated clock."""
    if client is None:
        return InProcessDriver(plan, clock.now)
    return HttpDriver(client, plan, f"replay-{uuid.uuid4().hex}")


def plan_of(
    world: World, kind: str, rates: RateChoice, seed: int, options: dict[str, Any], stream: ClickStream | None
) -> Plan:
    """Return the session: with the paper's delays, or with the stream's window."""
    if stream is None:
        return plan_session(world, kind, rates, seed, options)
    return plan_clicks(world, stream, kind, rates, seed, options)
