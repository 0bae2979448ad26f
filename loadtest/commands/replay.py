"""``replay``: one stream, one learner, one table; exit 1 where the run doesn't count."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from loadtest.commands.output import console, errors_reported
from loadtest.commands.replay_flags import Scenario, connected, driver_of, options_of, plan_of, stream_of, world_of
from loadtest.commands.replay_run import described, exit_with, run
from loadtest.errors import LoadTestError
from loadtest.replay import delays
from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.click_replay import ClickReplay
from loadtest.replay.click_report import click_facts
from loadtest.replay.pace import Pace
from loadtest.replay.plan import RateChoice
from loadtest.replay.replay import Replay
from loadtest.replay.report import build_report, write_report
from loadtest.replay.report_table import table_of
from loadtest.replay.simulated_time import SimulatedTime

DEFAULT_URL = "http://127.0.0.1:8000"
CLICKS = "Clicks only"


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
    with errors_reported(), ExitStack() as stack:
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
        stream = stream_of(scenario, times, slots_per_second)
        address = None if in_process else url or DEFAULT_URL
        client = None if address is None else connected(stack, address, retry_seconds, api_key)
        kind = learner or ("dexp3" if stream is None else "centred_tsallis")
        world, facts = world_of(scenario, data or [], kind, fill_seed)
        stream_delays = delays.strict(world.slots)
        world = world.head(min(slots or world.slots, world.slots))
        clock = SimulatedTime()
        plan = plan_of(world, kind, rates, seed, options_of(option or []), stream)
        driver = driver_of(plan, client, clock)
        if stream is not None and isinstance(world, ArmWorld):
            replaying: Replay = ClickReplay(world, stream, driver, clock if in_process else None)
        else:
            replaying = Replay(world, stream_delays, driver, Pace(slots_per_second))
        record = run(replaying, world.slots, f"{world.name} {kind}", drain=drain)
        facts |= described(driver, record) | {"url": address, "slots_per_second": slots_per_second}
        facts |= {} if stream is None else click_facts(world, stream, record)
        pace = Pace() if stream is not None and in_process else replaying.pace
        report = build_report(world, plan, record, driver.log, pace, facts)
    paths = write_report(report, out)
    console.print(table_of(report.summary))
    console.print("written:", ", ".join(map(str, paths)), soft_wrap=True, highlight=False)
    exit_with(record)
