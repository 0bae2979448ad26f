"""The command line: ``day``, ``replay``, ``paper``, ``study``, ``chaos`` and ``bench``."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import tempfile
import time
from contextlib import ExitStack
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from loadtest import figures, terminal
from loadtest.bench import footprint, growth, report, throughput, turns
from loadtest.bench.load import find_wrk
from loadtest.bench.measured import machine
from loadtest.bench.targets import Options, names_of
from loadtest.chaos.rounds import HEAD, NAMES, Asked, load_during, play_all, problems_of
from loadtest.day import lines_of, plot_day, simulate
from loadtest.errors import LoadTestError
from loadtest.paper import experiments, scaling
from loadtest.replay import run as replay_run
from loadtest.replay.drivers import SimulatedTime
from loadtest.replay.jester import PAGE
from loadtest.replay.replay import ClickReplay, Pace, Replay
from loadtest.replay.report import build_report, click_facts, table_of, write_report
from loadtest.replay.session import RateChoice
from loadtest.replay.worlds import YACHT_PAGE, ArmWorld, strict_delays
from loadtest.study import cells as study_cells
from loadtest.study.catalogue import check_names, worlds
from loadtest.study.learners import chosen, installed
from loadtest.study.page import write
from loadtest.terminal import console, errors_reported, print_note, print_table, print_written, progress_bar

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Replays of the paper's streams against the service, over HTTP or in process."""


@app.command()
def day(
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="Seed of the visitors and of the session.")] = 0,
    out: Annotated[Path, Option(help="Folder for day.png and day.svg.")] = Path("runs/day"),
) -> None:
    """Simulate a day of a shop's visitors in process: the click rate while it learns, beside uniform play."""
    with errors_reported():
        simulated = simulate(seed)
    for line in lines_of(simulated):
        console.print(line, highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    plot_day(simulated, out / "day.png", out / "day.svg")
    print_written(out)


DEFAULT_URL = "http://127.0.0.1:8000"
INTERRUPTED = 130


def _clicks(text: str, least: float = 0.001, most: float | None = None) -> Any:
    return Option(min=least, max=most, rich_help_panel="Clicks only", help=text)


@app.command()
def replay(
    scenario: Annotated[replay_run.Scenario, typer.Argument(help="The stream to replay.")],
    data: Annotated[list[Path] | None, Option(help="Jester file; repeat it to join several.")] = None,
    url: Annotated[str | None, Option(help=f"Address of the service; {DEFAULT_URL} if not given.")] = None,
    api_key: Annotated[
        str | None, Option(envvar="LOADTEST_API_KEY", help="API key of role admin; as a flag others can see it.")
    ] = None,
    api_key_file: Annotated[
        Path | None, Option(envvar="LOADTEST_API_KEY_FILE", help="File with the API key, instead of the key.")
    ] = None,
    in_process: Annotated[
        bool, Option("--in-process", help="Run the learner in this process, without a service.")
    ] = False,
    learner: Annotated[
        str | None, Option(help="Kind of learner; dexp3, and for clicks centred_tsallis, if not given.")
    ] = None,
    rates: Annotated[
        RateChoice, Option(help="auto takes the anytime rates where the learner has them, else the theorem's.")
    ] = RateChoice.AUTO,
    option: Annotated[
        list[str] | None, Option(help="Another field of the learner, as NAME=JSON; repeat it for several.")
    ] = None,
    slots: Annotated[int | None, Option(min=1, help="Stop after this many slots.")] = None,
    seed: Annotated[int, Option(min=0, max=2**63 - 1, help="The session's seed.")] = 0,
    fill_seed: Annotated[int, Option(min=0, help="Seed of the scores that replace missing ratings.")] = 0,
    drain: Annotated[bool, Option(help="At the end, send the events that are due after the last slot.")] = True,
    slots_per_second: Annotated[
        float | None, Option(min=0.001, help="Slots started per second; as fast as possible if not given.")
    ] = None,
    retry_seconds: Annotated[float, Option(min=0, help="Seconds for which a failed call is repeated.")] = 60.0,
    speed: Annotated[float | None, _clicks("Speed-up of all times; 1 if not given.")] = None,
    window: Annotated[
        float | None, _clicks("Seconds after which a missing click counts as no click; 600 if not given.")
    ] = None,
    interval: Annotated[float | None, _clicks("Seconds between visitors; 2 if not given.")] = None,
    delay_median: Annotated[float | None, _clicks("Median delay of a click in seconds; 30 if not given.")] = None,
    delay_sigma: Annotated[
        float | None, _clicks("Standard deviation of the logarithm of the delays; 1.5 if not given.", 0, 10)
    ] = None,
    delay_seed: Annotated[int | None, _clicks("Seed of the delays; 0 if not given.", 0)] = None,
    out: Annotated[Path, Option(help="Folder for summary.json, curve.csv and regret.png.")] = Path("runs/replay"),
) -> None:
    """Replay a stream of losses against one session, and report the regret beside uniform play."""
    times = {"speed": speed, "window": window, "interval": interval, "delay_median": delay_median}
    times |= {"delay_sigma": delay_sigma, "delay_seed": delay_seed}
    with errors_reported(), ExitStack() as stack:
        if in_process and url is not None:
            raise LoadTestError("give either --url or --in-process")
        stream = replay_run.stream_of(scenario, times, slots_per_second)
        address = None if in_process else url or DEFAULT_URL
        client = (
            None if address is None else replay_run.connected(stack, address, retry_seconds, api_key, api_key_file)
        )
        kind = learner or ("dexp3" if stream is None else "centred_tsallis")
        world, facts = replay_run.world_of(scenario, data or [], kind, fill_seed)
        delays = strict_delays(world.slots)
        world = world.head(min(slots or world.slots, world.slots))
        clock = SimulatedTime()
        plan, driver = replay_run.session_of(
            world, kind, rates, seed, replay_run.options_of(option or []), stream, client, clock
        )
        if stream is not None and isinstance(world, ArmWorld):
            replaying: Replay = ClickReplay(world, stream, driver, clock if in_process else None)
        else:
            replaying = Replay(world, delays, driver, Pace(slots_per_second))
        record = replay_run.play_under_a_bar(replaying, world.slots, f"{world.name} {kind}", drain=drain)
        facts |= replay_run.described(driver, record) | {"url": address, "slots_per_second": slots_per_second}
        facts |= {} if stream is None else click_facts(world, stream, record)
        pace = Pace() if stream is not None and in_process else replaying.pace
        found = build_report(world, plan, record, driver.log, pace, facts)
    paths = write_report(found, out)
    console.print(table_of(found.summary))
    print_written(*paths)
    terminal.print_problems(record.problems())
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)


JESTER_SEEDS = 20
"""Its stream is twelve times as long as the synthetic one."""


@app.command()
def paper(
    data_dir: Annotated[Path, Option(help="Folder of the Jester and yacht files.")] = Path("data"),
    seeds: Annotated[int, Option(min=2, help="Seeds for each learner that draws at random.")] = 100,
    jester_seeds: Annotated[
        int | None, Option(min=2, help="Seeds on the Jester ratings; the smaller of 20 and --seeds if not given.")
    ] = None,
    tune: Annotated[
        bool, Option("--tune", help="Also try factors c on the theorem's rates and report the best.")
    ] = False,
    scaling_studies: Annotated[
        bool, Option("--scaling", help="Also measure how regret grows with T and D.")
    ] = False,
    out: Annotated[Path, Option(help="Folder for summary.json and the figures.")] = Path("runs/paper"),
) -> None:
    """Run the paper's experiments and write its figures."""
    with errors_reported():
        ready, skipped = experiments.find_data(data_dir)
        counts = dict.fromkeys(ready, seeds) | {"mab_jester": jester_seeds or min(seeds, JESTER_SEEDS)}
        jobs = experiments.jobs_of(ready, counts, tune=tune)
        summary = experiments.collect(jobs, terminal.on_all_cores("experiments", experiments.run_job, jobs))
        out.mkdir(parents=True, exist_ok=True)
        (out / "summary.json").write_text(json.dumps(summary, allow_nan=False) + "\n", encoding="utf-8")
        for name, learners in summary.items():
            figures.plot_experiment(learners, out / f"{name}.png")
        head = ("learner", "Reg_T / T", "seeds", "tuned (c)")
        print_table("Normalised regret", head, experiments.table_rows(summary))
        if scaling_studies:
            studies, random_order = scaling.measure()
            text = json.dumps(studies | {"bco_random_order": random_order}, indent=2)
            (out / "scaling.json").write_text(text + "\n", encoding="utf-8")
            figures.plot_scaling(studies, out / "scaling.png")
            for title, head, rows in scaling.tables(studies, random_order):
                print_table(title, head, rows)
    for name, missing in skipped.items():
        print_note(f"skipped {name}: {missing}; the data are at {PAGE if name == 'mab_jester' else YACHT_PAGE}")
    print_written(out)


@app.command()
def study(
    data: Annotated[Path | None, Option(help="Jester file; without it the worlds of ratings are skipped.")] = None,
    seeds: Annotated[int, Option(min=2, help="Seeds of a world.")] = 20,
    stall_seeds: Annotated[int, Option(min=2, help="Seeds of the worlds that show stalls.")] = 100,
    slots: Annotated[int, Option(min=20, help="Longest horizon; longer worlds are cut.")] = 100_000,
    only: Annotated[str, Option(help="Play only worlds whose names hold this text.")] = "",
    learner: Annotated[
        list[str] | None, Option(help="Play only this learner, by its key in results.json; again for others.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="A trial of the command: two seeds, 400 slots.")] = False,
    out: Annotated[Path, Option(help="Folder of results.json; what is in it is not played again.")] = Path(
        "runs/study"
    ),
    page: Annotated[Path | None, Option(help="Write this page, and its figures into results/ beside it.")] = None,
) -> None:
    """Play learners in many worlds, cell by cell; stop it and start it again as you like."""
    size = study_cells.Size(2, 3, 400) if quick else study_cells.Size(seeds, stall_seeds, slots)
    with errors_reported():
        groups = worlds(data)
        check_names(groups)
        if data is None:
            print_note(f"skipped the ratings: no --data; they are at {PAGE}")
        entries, missing_libraries = installed()
        for entry in missing_libraries:
            print_note(f"skipped {entry.name}: {entry.needs} is not installed (extra peers)")
        if learner:
            entries = chosen(entries, learner)
        cells = [cell for cell in study_cells.cells_of(groups, size, entries) if only in cell.world.name]
        out.mkdir(parents=True, exist_ok=True)
        path = out / "results.json"
        known = study_cells.load(path)
        missing = study_cells.batches([cell for cell in cells if cell.key not in known])
        with progress_bar("study", len(missing)) as advance:
            for _ in study_cells.run(cells, path):
                advance()
    if page is not None:
        write(study_cells.load(path), page)
    console.print(f"{len(cells)} cells", highlight=False)
    print_written(out if page is None else page)


@app.command()
def chaos(
    rounds: Annotated[int, Option(min=0, help="Short rounds, one fault each; the kinds of fault take turns.")] = 27,
    long_freezes: Annotated[
        int, Option(min=0, help="Rounds after them in which the store is frozen for long.")
    ] = 0,
    failovers: Annotated[
        int, Option(min=0, help="Rounds on a master with two replicas and a sentinel, their faults in turn.")
    ] = 0,
    fault: Annotated[
        list[str] | None, Option(help="Kind of fault to play, by its name in the table; all if not given.")
    ] = None,
    freeze_seconds: Annotated[float, Option(min=3, help="Seconds that a long freeze lasts.")] = 30,
    time_factor: Annotated[float, Option(min=1, help="Factor on all time limits, for a busy machine.")] = 1,
    seed: Annotated[int, Option(min=0, help="Seed of the times at which faults happen.")] = 0,
    during: Annotated[
        str | None, Option(help="Command that runs while the service at --url is loaded; no fault is played.")
    ] = None,
    url: Annotated[
        str | None, Option(help="For --during: address of a running service, or of the proxy in front of it.")
    ] = None,
    outage: Annotated[
        bool, Option("--outage", help="For --during: the service may be away; else a retried 503 is the worst.")
    ] = False,
    out: Annotated[Path, Option(help="Folder for summary.json and the logs.")] = Path("runs/chaos"),
) -> None:
    """Start a service, break it under load, and exit 1 unless all that was acknowledged counts exactly once."""
    if (during is None) != (url is None):
        raise typer.BadParameter("--during and --url belong together")
    if unknown := set(fault or ()) - set(NAMES):
        raise typer.BadParameter(f"no {sorted(unknown)[0]}; there are {', '.join(NAMES)}", param_hint="--fault")
    if during is not None and url is not None:
        out.mkdir(parents=True, exist_ok=True)
        with errors_reported():
            summary = load_during(shlex.split(during), url, outage=outage)
        for name, value in summary.items():
            console.print(f"{name}: {value}", markup=False, highlight=False, soft_wrap=True)
        problems = summary["problems"]
    else:
        began = time.monotonic()
        asked = Asked(rounds, failovers, long_freezes, freeze_seconds, fault, time_factor, seed)
        with terminal.own_processes(out), progress_bar("chaos", rounds + failovers + long_freezes) as advance:
            tallies, skipped = play_all(asked, out, advance)
        faults, problems = {kind: tally.summary() for kind, tally in tallies.items()}, problems_of(tallies)
        summary = {"ok": not problems, "seed": seed, "seconds": round(time.monotonic() - began, 1)}
        summary |= {"faults": faults, "skipped": skipped}
        print_table("Acknowledged and settled", HEAD, [tally.row(kind) for kind, tally in tallies.items()])
        for name, reason in skipped.items():
            print_note(f"skipped: {name}: {reason}")
    terminal.write_summary(out, summary)
    print_written(out)
    terminal.print_problems(problems)


class Part(StrEnum):
    """What the bench measures."""

    RATES = "rates"
    """Rates and processor times, beside floors."""
    START = "start"
    """Import of the application, and a start until it is ready."""
    STORED = "stored"
    """Bytes of the log, and memory of idle sessions."""
    GROWTH = "growth"
    """How times grow with sizes."""
    TURNS = "turns"
    """For how long the largest requests block the event loop."""


IDLE_FOR_EACH = 5
"""Idle sessions for each of the ``--sessions`` that are used."""


@app.command()
def bench(
    seconds: Annotated[
        float,
        Option(min=0.1, max=3600, help="Seconds for which a target is called in each round; wrk takes whole ones."),
    ] = 3.0,
    repetitions: Annotated[int, Option(min=1, help="Rounds; each calls every target.")] = 5,
    clients: Annotated[
        int, Option(min=1, help="Connections; each sends a request after the answer to the one before.")
    ] = 32,
    n_arms: Annotated[int, Option(min=2, max=100_000, help="Arms of each session.")] = 100,
    sessions: Annotated[int, Option(min=1, help="Sessions where there are many.")] = 1000,
    workers: Annotated[
        list[int] | None,
        Option(min=1, help="Number of worker processes; repeat it to measure several. 1 and 2 if not given."),
    ] = None,
    part: Annotated[
        list[Part] | None, Option(help="Part to measure; repeat it for several. All if not given.")
    ] = None,
    grow_to: Annotated[int, Option(min=3, help="Largest size of what grows.")] = 1_000_000,
    with_wrk: Annotated[
        bool, Option("--wrk/--no-wrk", help="Whether wrk makes the load, if it is installed.")
    ] = True,
    out: Annotated[Path, Option(help="Folder for summary.json and the logs.")] = Path("runs/bench"),
    page: Annotated[
        Path | None, Option(help="Write the tables into this page, and the figures into results/.")
    ] = None,
) -> None:
    """Measure the service beside endpoints that do less: rates, times, bytes, and how they grow."""
    parts, counts = set(part or Part), workers or [1, 2]
    if page is not None:
        if 1 not in counts or parts != set(Part):
            raise typer.BadParameter(
                "the page has all parts, and the figures of one worker: measure --workers 1 too"
            )
        if lacking := report.lacking_mark(page):
            raise typer.BadParameter(f"the page {page} lacks {lacking}")
    program, has_peers = find_wrk() if with_wrk else None, find_spec("river") is not None
    if with_wrk and program is None:
        print_note("clients in Python make the load: wrk is not installed")
    if not has_peers:
        print_note("river is left out: it is not installed (extra peers)")
    options = Options(seconds, repetitions, clients, n_arms, counts, sessions, wrk=program, peers=has_peers)
    with terminal.own_processes(out):
        summary: dict[str, Any] = {"date": dt.datetime.now(dt.UTC).date().isoformat(), "machine": machine()}
        summary["options"] = options._asdict()
        if Part.RATES in parts:
            steps = repetitions * sum(len(names_of(options, count)) for count in counts)
            with tempfile.TemporaryDirectory(prefix="bench-") as data, progress_bar("rates", steps) as advance:
                summary |= throughput.measure(options, Path(data), out, advance)
        if Part.START in parts:
            with terminal.messages.status("start"):
                summary["start"] = footprint.start_times(repetitions)
        if Part.STORED in parts:
            with terminal.messages.status("bytes"):
                summary["stored"] = footprint.stored_bytes(clients, seconds, IDLE_FOR_EACH * sessions)
        if Part.GROWTH in parts:
            sizes = growth.Sizes(repetitions=repetitions).limited(grow_to)
            with progress_bar("growth", sizes.steps()) as advance:
                summary["growth"] = growth.measure(sizes, out, advance)
        if Part.TURNS in parts:
            with progress_bar("turns", repetitions * len(turns.LARGE_REQUESTS)) as advance:
                summary["turns"] = turns.measure(repetitions, advance)
        terminal.write_summary(out, summary)
    for title, head, rows in report.tables(summary):
        print_table(title, head, rows)
    if page is not None:
        report.write(summary, page)
    print_written(out if page is None else page)
