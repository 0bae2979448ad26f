"""``replay``: one stream, one learner, one table; exit 1 where the run doesn't count."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from loadtest.commands.output import console, errors_reported, print_table
from loadtest.commands.replay_flags import (
    Scenario,
    connected,
    driver_of,
    key_of,
    options_of,
    plan_of,
    stream_of,
    world_of,
)
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
        typer.Option(
            envvar="LOADTEST_API_KEY",
            help="API key of role admin; as a flag it is visible in the list of processes.",
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(envvar="LOADTEST_API_KEY_FILE", help="File with the API key, instead of the key.")
    ] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Run the learner in this process, without a service.")
    ] = False,
    learner: Annotated[
        str | None, typer.Option(help="Kind of learner; dexp3, and for clicks centred_tsallis, if not given.")
    ] = None,
    rates: Annotated[
        RateChoice,
        typer.Option(help="auto takes the anytime rates where the learner has them, else the theorem's."),
    ] = RateChoice.AUTO,
    option: Annotated[
        list[str] | None, typer.Option(help="Another field of the learner, as NAME=JSON; repeat it for several.")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Stop after this many slots.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The session's seed.")] = 0,
    fill_seed: Annotated[int, typer.Option(min=0, help="Seed of the scores that replace missing ratings.")] = 0,
    drain: Annotated[
        bool, typer.Option(help="At the end, send the events that are due after the last slot.")
    ] = True,
    slots_per_second: Annotated[
        float | None, typer.Option(min=0.001, help="Slots started per second; as fast as possible if not given.")
    ] = None,
    retry_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds for which a failed call is repeated.")
    ] = 60.0,
    speed: Annotated[
        float | None, typer.Option(min=0.001, rich_help_panel=CLICKS, help="Speed-up of all times; 1 if not given.")
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            rich_help_panel=CLICKS,
            help="Seconds after which a missing click counts as no click; 600 if not given.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(min=0.001, rich_help_panel=CLICKS, help="Seconds between visitors; 2 if not given."),
    ] = None,
    delay_median: Annotated[
        float | None,
        typer.Option(
            min=0.001, rich_help_panel=CLICKS, help="Median delay of a click in seconds; 30 if not given."
        ),
    ] = None,
    delay_sigma: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=10,
            rich_help_panel=CLICKS,
            help="Standard deviation of the logarithm of the delays; 1.5 if not given.",
        ),
    ] = None,
    delay_seed: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=CLICKS, help="Seed of the delays; 0 if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for summary.json, curve.csv and regret.png.")] = Path(
        "runs/replay"
    ),
) -> None:
    """Replay a stream of losses against one session, and report the regret beside uniform play."""
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
        key = key_of(api_key, api_key_file)
        client = None if address is None else connected(stack, address, retry_seconds, key)
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
    print_table(table_of(report.summary))
    console.print("written:", ", ".join(map(str, paths)), soft_wrap=True, highlight=False)
    exit_with(record)
