"""``replay``: one stream, one learner, one table; exit 1 where the run doesn't count."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest import delays
from loadtest.client import Client
from loadtest.commands.screen import console, messages, reported
from loadtest.driver import Driver, HttpDriver, InProcessDriver
from loadtest.errors import LoadTestError
from loadtest.jester import read_jester
from loadtest.pace import Pace
from loadtest.plan import Plan, RateChoice, World, plan_session, plays_points
from loadtest.point_worlds import bco_synthetic
from loadtest.replay import Record, Replay
from loadtest.report import build_report, table_of, write_report
from loadtest.scenarios import mab_jester, mab_synthetic

DEFAULT_URL = "http://127.0.0.1:8000"
INTERRUPTED = 130
PROGRESS_EVERY = 50
"""Slots between two updates of the progress bar."""


class Scenario(StrEnum):
    """What is replayed."""

    JESTER = "jester"
    SYNTHETIC = "synthetic"


def replay(
    scenario: Annotated[Scenario, typer.Argument(help="The stream to replay.")],
    data: Annotated[list[Path] | None, typer.Option(help="Jester file; repeat it to join several.")] = None,
    url: Annotated[str | None, typer.Option(help=f"Address of the service; {DEFAULT_URL} if not given.")] = None,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Drive the learner without the service.")
    ] = False,
    learner: Annotated[str, typer.Option(help="Kind of learner.")] = "dexp3",
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
    out: Annotated[Path, typer.Option(help="Folder for summary.json, curve.csv and regret.png.")] = Path(
        "runs/replay"
    ),
) -> None:
    """Replay a stream with the paper's delays and report the regret beside uniform play."""
    with reported(), ExitStack() as stack:
        if in_process and url is not None:
            raise LoadTestError("give either --url or --in-process")
        world, facts = _world(scenario, data or [], learner, fill_seed)
        stream_delays = delays.strict(world.slots)
        world = world.head(min(slots or world.slots, world.slots))
        plan = plan_session(world, learner, rates, seed, _options(option or []))
        address = None if in_process else url or DEFAULT_URL
        driver = _driver(stack, plan, address, retry_seconds)
        replaying = Replay(world, stream_delays, driver, Pace(slots_per_second))
        record = _run(replaying, world.slots, f"{world.name} {learner}", drain=drain)
        facts |= _described(driver, record) | {"url": address, "slots_per_second": slots_per_second}
        report = build_report(world, plan, record, driver.log, replaying.pace, facts)
    paths = write_report(report, out)
    console.print(table_of(report.summary))
    console.print("written:", ", ".join(map(str, paths)), soft_wrap=True, highlight=False)
    _exit(record)


def _world(scenario: Scenario, data: list[Path], learner: str, fill_seed: int) -> tuple[World, dict[str, Any]]:
    if scenario is Scenario.JESTER:
        ratings = read_jester(data)
        for text in ratings.warnings:
            messages.print(f"warning: {text}", style="yellow", markup=False, highlight=False)
        facts = {"fill_seed": fill_seed, "rated": ratings.rated, "warnings": ratings.warnings}
        return mab_jester(ratings, fill_seed), facts | {"data": [source._asdict() for source in ratings.sources]}
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


def _driver(stack: ExitStack, plan: Plan, address: str | None, retry_seconds: float) -> Driver:
    if address is None:
        return InProcessDriver(plan)
    try:
        http = stack.enter_context(httpx.Client(base_url=address, timeout=30.0))
    except httpx.InvalidURL as error:
        raise LoadTestError(f"--url {address}: {error}") from error
    return HttpDriver(Client(http, retry_seconds), plan, f"replay-{uuid.uuid4().hex}")


def _run(replaying: Replay, slots: int, label: str, *, drain: bool) -> Record:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages) as progress, _stoppable() as stops:
        task = progress.add_task(label, total=slots)

        def advance(slot: int) -> None:
            if slot % PROGRESS_EVERY == 0 or slot == slots:
                progress.update(task, completed=slot)

        return replaying.run(drain=drain, stopped=lambda: bool(stops), advance=advance)


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """The signals received; the first one of a kind ends the replay after its slot, the second at once."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: object) -> None:  # noqa: ARG001 - the signature of a handler
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _described(driver: Driver, record: Record) -> dict[str, Any]:
    if record.counts is None:
        return {"driver": "unknown"}
    described = driver.describe()
    return described | {"rates": (described["parameters"] or {}).get("rates")}


def _exit(record: Record) -> None:
    for problem in record.problems():
        messages.print(f"error: {problem}", style="red", markup=False, highlight=False)
    if record.problems():
        raise typer.Exit(1)
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)
