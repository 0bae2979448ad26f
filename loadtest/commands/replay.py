"""``replay``: one stream, one learner, one table; exit 1 where the run doesn't count."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from loadtest import delays
from loadtest.click_replay import ClickReplay
from loadtest.click_report import click_facts
from loadtest.click_stream import ClickStream
from loadtest.click_worlds import jester_clicks
from loadtest.client import Client
from loadtest.commands.running import described, exit_with, run
from loadtest.commands.screen import console, reported, tell_note
from loadtest.driver import Driver
from loadtest.errors import LoadTestError
from loadtest.http_driver import HttpDriver
from loadtest.in_process_driver import InProcessDriver
from loadtest.jester import read_jester
from loadtest.pace import Pace
from loadtest.passing_time import SimulatedTime
from loadtest.plan import Plan, RateChoice, World, plan_session, plays_points
from loadtest.point_worlds import bco_synthetic
from loadtest.replay import Replay
from loadtest.report import build_report, table_of, write_report
from loadtest.scenarios import ArmWorld, mab_jester, mab_synthetic

DEFAULT_URL = "http://127.0.0.1:8000"
CLICKS = "Clicks only"


class Scenario(StrEnum):
    """What is replayed."""

    JESTER = "jester"
    SYNTHETIC = "synthetic"
    CLICKS = "clicks"


def replay(
    scenario: Annotated[Scenario, typer.Argument(help="The stream to replay.")],
    data: Annotated[list[Path] | None, typer.Option(help="Jester file; repeat it to join several.")] = None,
    url: Annotated[str | None, typer.Option(help=f"Address of the service; {DEFAULT_URL} if not given.")] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="LOADTEST_API_KEY", help="A key of the service, of role admin; better not as a flag."),
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Drive the learner without the service.")
    ] = False,
    learner: Annotated[
        str | None, typer.Option(help="Kind of learner; dexp3, and for clicks centred_tsallis, if not given.")
    ] = None,
    rates: Annotated[RateChoice, typer.Option(help="auto: anytime where the learner has them.")] = RateChoice.AUTO,
    option: Annotated[list[str] | None, typer.Option(help="A further learner field, NAME=JSON.")] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Stop after this many slots.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The session's seed.")] = 0,
    fill_seed: Annotated[int, typer.Option(min=0, help="Seed of the scores of missing ratings.")] = 0,
    drain: Annotated[bool, typer.Option(help="At the end, send the events that are still due later.")] = True,
    slots_per_second: Annotated[
        float | None, typer.Option(min=0.001, help="Start slots at this rate; as fast as it goes if not given.")
    ] = None,
    retry_seconds: Annotated[float, typer.Option(min=0, help="How long one call is tried again.")] = 60.0,
    speed: Annotated[
        float | None, typer.Option(min=0.001, rich_help_panel=CLICKS, help="Play this many times as fast; 1.")
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(min=0.001, rich_help_panel=CLICKS, help="Seconds until no click is a non-click; 600."),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(min=0.001, rich_help_panel=CLICKS, help="Seconds between impressions; 2.")
    ] = None,
    delay_median: Annotated[
        float | None, typer.Option(min=0.001, rich_help_panel=CLICKS, help="Seconds to half of the clicks; 30.")
    ] = None,
    delay_sigma: Annotated[
        float | None, typer.Option(min=0, max=10, rich_help_panel=CLICKS, help="Of the delays' logarithm; 1.5.")
    ] = None,
    delay_seed: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=CLICKS, help="Seed of the delays; 0.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for summary.json, curve.csv and regret.png.")] = Path(
        "runs/replay"
    ),
) -> None:
    """Replay a stream with the paper's delays, or as clicks in time, and report the regret beside uniform play."""
    with reported(), ExitStack() as stack:
        if in_process and url is not None:
            raise LoadTestError("give either --url or --in-process")
        times = {
            "speed": speed,
            "window": window,
            "interval": interval,
            "delay_median": delay_median,
            "delay_sigma": delay_sigma,
            "delay_seed": delay_seed,
        }
        stream = _stream(scenario, times, slots_per_second)
        kind = learner or ("dexp3" if stream is None else "centred_tsallis")
        world, facts = _world(scenario, data or [], kind, fill_seed)
        stream_delays = delays.strict(world.slots)
        world = world.head(min(slots or world.slots, world.slots))
        address = None if in_process else url or DEFAULT_URL
        clock = SimulatedTime() if address is None else None
        late = None if stream is None else stream.settled_after(world.slots)
        plan = plan_session(world, kind, rates, seed, _options(option or []), late)
        if stream is not None:
            plan = replace(plan, session=plan.session | stream.session_fields())
        driver = _driver(stack, plan, address, retry_seconds, clock, api_key)
        if stream is not None and isinstance(world, ArmWorld):
            replaying: Replay = ClickReplay(world, stream, driver, clock)
        else:
            replaying = Replay(world, stream_delays, driver, Pace(slots_per_second))
        record = run(replaying, world.slots, f"{world.name} {kind}", drain=drain)
        facts |= described(driver, record) | {"url": address, "slots_per_second": slots_per_second}
        facts |= {} if stream is None else click_facts(world, stream, record)
        pace = Pace() if stream is not None and clock is not None else replaying.pace
        report = build_report(world, plan, record, driver.log, pace, facts)
    paths = write_report(report, out)
    console.print(table_of(report.summary))
    console.print("written:", ", ".join(map(str, paths)), soft_wrap=True, highlight=False)
    exit_with(record)


def _stream(scenario: Scenario, times: dict[str, Any], slots_per_second: float | None) -> ClickStream | None:
    given = {name: value for name, value in times.items() if value is not None}
    if scenario is Scenario.CLICKS:
        if slots_per_second is not None:
            raise LoadTestError("clicks take --interval and --speed, not --slots-per-second")
        return ClickStream(**given)
    if given:
        raise LoadTestError(f"only clicks take --{next(iter(given)).replace('_', '-')}")
    return None


def _world(scenario: Scenario, data: list[Path], learner: str, fill_seed: int) -> tuple[World, dict[str, Any]]:
    if scenario is not Scenario.SYNTHETIC:
        ratings = read_jester(data)
        for text in ratings.warnings:
            tell_note(f"warning: {text}")
        facts = {"fill_seed": fill_seed, "rated": ratings.rated, "warnings": ratings.warnings}
        world = (jester_clicks if scenario is Scenario.CLICKS else mab_jester)(ratings, fill_seed)
        return world, facts | {"data": [source._asdict() for source in ratings.sources]}
    if data:
        raise LoadTestError("the synthetic stream takes no --data")
    return (bco_synthetic() if plays_points(learner) else mab_synthetic()), {}


def _options(texts: list[str]) -> dict[str, Any]:
    fields = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields


def _driver(
    stack: ExitStack,
    plan: Plan,
    address: str | None,
    retry_seconds: float,
    clock: SimulatedTime | None,
    api_key: str | None,
) -> Driver:
    if address is None or clock is not None:
        return InProcessDriver(plan, (clock or SimulatedTime()).now)
    try:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        http = stack.enter_context(httpx.Client(base_url=address, timeout=30.0, headers=headers))
    except httpx.InvalidURL as error:
        raise LoadTestError(f"--url {address}: {error}") from error
    return HttpDriver(Client(http, retry_seconds), plan, f"replay-{uuid.uuid4().hex}")
