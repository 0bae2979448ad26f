"""The command line, from ``day`` to ``capacity``."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from loadtest import digits as handwritten
from loadtest import evaluate as evaluate_logs
from loadtest import figures, terminal, visitors
from loadtest import verdict as verdicts
from loadtest.bench import capacity as measured_capacity
from loadtest.bench import footprint, report, throughput, turns
from loadtest.bench.load import find_wrk
from loadtest.bench.measured import machine
from loadtest.bench.throughput import Options, names_of
from loadtest.chaos.rounds import HEAD, NAMES, Asked, load_during, play_all, problems_of
from loadtest.day import lines_of, plot_day, simulate
from loadtest.errors import LoadTestError
from loadtest.operations import drills as drilled
from loadtest.operations import upgrade as upgrades
from loadtest.paper import experiments, scaling
from loadtest.replay import run as replay_run
from loadtest.replay.jester import PAGE
from loadtest.replay.replay import ClickReplay, Pace, Replay
from loadtest.replay.report import build_report, click_facts, table_of, write_report
from loadtest.replay.session import HttpDriver, InProcessDriver, RateChoice, SimulatedTime, plan_session
from loadtest.replay.worlds import YACHT_PAGE, ArmWorld, strict_delays
from loadtest.study import cells as study_cells
from loadtest.study import outage
from loadtest.study import page as study_page
from loadtest.study.catalogue import worlds
from loadtest.study.learners import chosen, installed
from loadtest.study.tables import markdown
from loadtest.terminal import console, errors_reported, print_note, print_table, print_written, progress_bar


def flag(text: str, least: float | None = None, most: float | None = None, **more: Any) -> Any:
    """Make an option of a command, whose help is the text."""
    return typer.Option(help=text, min=least, max=most, **more)


def clicks_flag(text: str, least: float = 0.001, most: float | None = None) -> Any:
    """Make an option for streams of clicks."""
    return flag(text, least, most, rich_help_panel="Clicks only")


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def main() -> None:
    """Replays of the paper's streams against the service, over HTTP or in process."""


def check_marks(page: Path | None, marks: tuple[str, str]) -> None:
    """Refuse a page without the marks between which a command writes."""
    text = page.read_text("utf-8") if page is not None and page.is_file() else ""
    if page is not None and (lacking := [mark for mark in marks if mark not in text]):
        raise typer.BadParameter(f"the page {page} lacks {lacking[0]}")


@app.command()
def day(
    seed: Annotated[int, flag("Seed of the visitors and of the session.", 0, 2**63 - 1)] = 0,
    out: Annotated[Path, flag("Folder for day.png and day.svg.")] = Path("runs/day"),
) -> None:
    """Simulate a day of a shop's visitors in process: the click rate while it learns, beside uniform play."""
    with errors_reported():
        simulated = simulate(seed)
    for line in lines_of(simulated):
        console.print(line, highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    plot_day(simulated, out / "day.png", out / "day.svg")
    print_written(out)


@app.command()
def digits(
    acts: Annotated[int, flag("Digits to guess.", 1)] = 20_000,
    seed: Annotated[int, flag("Seed of the order, of the delays and of the session.", 0, 2**63 - 1)] = 0,
) -> None:
    """Guess handwritten digits in process, from late clicks on right guesses, with and without their pixels."""
    with errors_reported():
        pixels, known = handwritten.load_digits()
        for name, told in (("with features", True), ("without", False)):
            right = handwritten.play(pixels, known, acts, seed, told=told)
            tail = right[-acts // 4 :]
            console.print(
                f"{name:14}{right.mean():.3f} of all guesses are right, {tail.mean():.3f} of the last quarter"
            )


@app.command()
def evaluate(
    logs: Annotated[int, flag("Simulated logs of each kind.", 1)] = 400,
    only: Annotated[str, flag("Play only kinds whose names hold this text.")] = "",
    seed: Annotated[int, flag("Seed of the first log.", 0)] = 1000,
) -> None:
    """Simulate logs of late clicks whose truth is known, and count how many intervals of `evaluate` hold it."""
    jobs = [(name, seed + run) for name in evaluate_logs.WORLDS if only in name for run in range(logs)]
    with errors_reported():
        found = terminal.on_all_cores("logs", evaluate_logs.counted, jobs)
    total = sum(found, Counter())
    print_table("Share of 95 % intervals that hold", evaluate_logs.HEAD, evaluate_logs.table_rows(total))


DEFAULT_URL = "http://127.0.0.1:8000"
INTERRUPTED = 130


@app.command()
def replay(
    scenario: Annotated[replay_run.Scenario, typer.Argument(help="The stream to replay.")],
    data: Annotated[list[Path] | None, flag("Jester file; repeat it to join several.")] = None,
    url: Annotated[str | None, flag(f"Address of the service; {DEFAULT_URL} if not given.")] = None,
    api_key: Annotated[
        str | None, flag("Admin's API key; others can see flags.", envvar="LOADTEST_API_KEY")
    ] = None,
    api_key_file: Annotated[Path | None, flag("File with the key.", envvar="LOADTEST_API_KEY_FILE")] = None,
    in_process: Annotated[bool, Option("--in-process", help="Run the learner here, without a service.")] = False,
    learner: Annotated[str | None, flag("Kind; dexp3, for clicks centred_tsallis, if not given.")] = None,
    rates: Annotated[RateChoice, flag("auto: anytime if there are any, else the theorem's.")] = RateChoice.AUTO,
    option: Annotated[list[str] | None, flag("Field of the learner, as NAME=JSON; again for others.")] = None,
    slots: Annotated[int | None, flag("Stop after this many slots.", 1)] = None,
    seed: Annotated[int, flag("The session's seed.", 0, 2**63 - 1)] = 0,
    fill_seed: Annotated[int, flag("Seed of the scores that replace missing ratings.", 0)] = 0,
    drain: Annotated[bool, flag("At the end, send the events that are due after the last slot.")] = True,
    slots_per_second: Annotated[float | None, flag("Slots a second; unlimited if not given.", 0.001)] = None,
    retry_seconds: Annotated[float, flag("Seconds for which a failed call is repeated.", 0)] = 60.0,
    speed: Annotated[float | None, clicks_flag("Speed-up of all times; 1 if not given.")] = None,
    window: Annotated[float | None, clicks_flag("Seconds after which no click is none; 600 if not given.")] = None,
    interval: Annotated[float | None, clicks_flag("Seconds between visitors; 2 if not given.")] = None,
    delay_median: Annotated[float | None, clicks_flag("Median seconds until a click; 30 if not given.")] = None,
    delay_sigma: Annotated[float | None, clicks_flag("Deviation of log delays; 1.5 if not given.", 0, 10)] = None,
    delay_seed: Annotated[int | None, clicks_flag("Seed of the delays; 0 if not given.", 0)] = None,
    out: Annotated[Path, flag("Folder for summary.json, curve.csv and regret.png.")] = Path("runs/replay"),
) -> None:
    """Replay a stream of losses against one session, and report the regret beside uniform play."""
    times = {"speed": speed, "window": window, "interval": interval, "delay_median": delay_median}
    times |= {"delay_sigma": delay_sigma, "delay_seed": delay_seed}
    with errors_reported(), ExitStack() as stack:
        if in_process and url is not None:
            raise LoadTestError("give either --url or --in-process")
        stream = replay_run.stream_of(scenario, times, slots_per_second)
        address = None if in_process else url or DEFAULT_URL
        client = replay_run.connected(stack, address, retry_seconds, api_key, api_key_file) if address else None
        kind = learner or ("dexp3" if stream is None else "centred_tsallis")
        world, facts = replay_run.world_of(scenario, data or [], kind, fill_seed)
        delays = strict_delays(world.slots)
        world = world.head(min(slots or world.slots, world.slots))
        clock = SimulatedTime()
        fields = replay_run.options_of(option or [])
        plan = plan_session(world, kind, rates, seed, fields, stream)
        name = f"replay-{uuid.uuid4().hex}"
        driver = InProcessDriver(plan, clock.now) if client is None else HttpDriver(client, plan, name)
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
    data_dir: Annotated[Path, flag("Folder of the Jester and yacht files.")] = Path("data"),
    seeds: Annotated[int, flag("Seeds for each learner that draws at random.", 2)] = 100,
    jester_seeds: Annotated[int | None, flag("Seeds on the Jester ratings; at most 20 if not given.", 2)] = None,
    tune: Annotated[bool, Option("--tune", help="Also try factors c on the theorem's rates.")] = False,
    scaling_studies: Annotated[bool, Option("--scaling", help="Also measure how regret grows.")] = False,
    out: Annotated[Path, flag("Folder for summary.json and the figures.")] = Path("runs/paper"),
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
    data: Annotated[Path | None, flag("Jester file; without it the worlds of ratings are skipped.")] = None,
    seeds: Annotated[int, flag("Seeds of a world.", 2)] = 20,
    stall_seeds: Annotated[int, flag("Seeds of the worlds that show stalls.", 2)] = 100,
    slots: Annotated[int, flag("Longest horizon; longer worlds are cut.", 20)] = 100_000,
    only: Annotated[str, flag("Play only worlds whose names hold this text.")] = "",
    learner: Annotated[list[str] | None, flag("Play only this learner, by its key; again for others.")] = None,
    quick: Annotated[bool, Option("--quick", help="A trial of the command: two seeds, 400 slots.")] = False,
    out: Annotated[Path, flag("Folder of results.json; what is in it is not played again.")] = Path("runs/study"),
    page: Annotated[Path | None, flag("Write the tables into this page, and the figures into results/.")] = None,
    outages: Annotated[bool, Option("--outages", help="Play only sessions without clicks for a while.")] = False,
) -> None:
    """Play learners in many worlds, cell by cell; stop it and start it again as you like."""
    if outages:
        jobs = [outage.Job(kind, n) for kind in outage.LEARNERS for n in range(seeds)]
        head = ("learner", "with", "clicks after it", "lost of them")
        clicks = terminal.on_all_cores("outages", outage.play, jobs)
        print_table("Two windows without clicks", head, outage.rows(jobs, clicks))
        print_note(f"{outage.false_alarms(0.02, 10_000, 1000)} of 1,000 healthy sessions ever fell silent")
        return
    check_marks(page, study_page.MARKS)
    size = study_cells.Size(2, 3, 400) if quick else study_cells.Size(seeds, stall_seeds, slots)
    with errors_reported():
        groups = worlds(data)
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
        study_page.write(study_cells.load(path), page)
    console.print(f"{len(cells)} cells", highlight=False)
    print_written(out if page is None else page)


@app.command()
def verdict(
    runs: Annotated[int, flag("Sessions without a difference.", 20)] = 2000,
    effects: Annotated[int, flag("Sessions of each kind with a better arm.", 0)] = 60,
    out: Annotated[Path, flag("Folder of results.json; what is in it is not played again.")] = Path("runs/verdict"),
    page: Annotated[Path | None, flag("Write the tables into this page.")] = None,
) -> None:
    """Play sessions with a control group: how often a verdict is ever wrong, and how soon it finds a better arm."""
    check_marks(page, verdicts.MARKS)
    out.mkdir(parents=True, exist_ok=True)
    counts, path = verdicts.counted_cases(runs, effects), out / "results.json"
    with errors_reported():
        known = study_cells.load(path)
        for part in range(1, verdicts.PARTS + 1):
            if jobs := [job for job in verdicts.jobs_of(counts, part) if verdicts.key_of(job) not in known]:
                label = f"part {part} of {verdicts.PARTS}"
                found = terminal.on_all_cores(label, verdicts.run_job, jobs)
                known |= zip(map(verdicts.key_of, jobs), found, strict=True)
                study_cells.save(path, known)
    played = verdicts.gathered(counts, known)
    for title, head, rows in verdicts.tables(played):
        print_table(title, head, rows)
    if page is not None:
        study_page.write_between(verdicts.MARKS, verdicts.section(played), page)
    print_written(out if page is None else page)


@app.command("visitors")
def play_visitors(
    seeds: Annotated[int, flag("Runs of each learner in each world.", 2)] = 6,
    world: Annotated[str, flag("Only worlds with this in their name.")] = "",
    learner: Annotated[list[str] | None, flag("Learner, by its name; all if not given.")] = None,
    slots: Annotated[int, flag("Acts of a run.", 1)] = 20_000,
    out: Annotated[Path, flag("Folder of results.json: played once.")] = Path("runs/visitors"),
    page: Annotated[Path | None, flag("Write the table into this page.")] = None,
) -> None:
    """Play learners that see features of visitors, and ours without, in worlds of late clicks."""
    check_marks(page, visitors.MARKS)
    can = [name for name in visitors.PLAYERS if not name.startswith("VW") or find_spec("vowpalwabbit")]
    players = [name for name in can if name in (learner or can)]
    out.mkdir(parents=True, exist_ok=True)
    known = study_cells.load(path := out / "results.json")
    with errors_reported():
        for at in (each._replace(slots=slots) for each in visitors.WORLDS if world in each.name):
            every = [(at, name, seed) for name in players for seed in range(1, seeds + 1)]
            if jobs := [job for job in every if visitors.key_of(job) not in known]:
                scores = terminal.on_all_cores(at.name, visitors.score, jobs)
                known |= zip(map(visitors.key_of, jobs), scores, strict=True)
                study_cells.save(path, known)
    head, *rows = visitors.table(known)
    print_table("Share of the oracle's gain", head, rows)
    if page is not None:
        study_page.write_between(visitors.MARKS, markdown([head, *rows]), page)
    print_written(out if page is None else page)


@app.command()
def chaos(
    rounds: Annotated[int, flag("Short rounds, one fault each; the kinds of fault take turns.", 0)] = 28,
    long_freezes: Annotated[int, flag("Rounds after them in which the store is frozen for long.", 0)] = 0,
    failovers: Annotated[int, flag("Rounds with replicas and a sentinel; faults take turns.", 0)] = 0,
    fault: Annotated[list[str] | None, flag("Kind of fault, by its name; all if not given.")] = None,
    freeze_seconds: Annotated[float, flag("Seconds that a long freeze lasts.", 3)] = 30,
    time_factor: Annotated[float, flag("Factor on all time limits, for a busy machine.", 1)] = 1,
    seed: Annotated[int, flag("Seed of the times at which faults happen.", 0)] = 0,
    during: Annotated[str | None, flag("Command that runs while the service at --url is loaded.")] = None,
    url: Annotated[str | None, flag("For --during: a running service, or a proxy before it.")] = None,
    api_key: Annotated[str | None, flag("For --during: API key of role admin.", envvar="LOADTEST_API_KEY")] = None,
    outage: Annotated[bool, Option("--outage", help="For --during: the service may be away.")] = False,
    updates: Annotated[bool, Option("--updates", help="Events name goals, change, and come by token.")] = False,
    features: Annotated[bool, Option("--features", help="Acts say what is known of their visitor.")] = False,
    out: Annotated[Path, flag("Folder for summary.json and the logs.")] = Path("runs/chaos"),
) -> None:
    """Start a service, break it under load, and exit 1 unless all that was acknowledged counts exactly once."""
    if (during is None) != (url is None):
        raise typer.BadParameter("--during and --url belong together")
    if unknown := set(fault or ()) - set(NAMES):
        raise typer.BadParameter(f"no {sorted(unknown)[0]}; there are {', '.join(NAMES)}", param_hint="--fault")
    if during is not None and url is not None:
        out.mkdir(parents=True, exist_ok=True)
        with errors_reported():
            happen = partial(subprocess.call, shlex.split(during))
            summary = load_during(happen, url, outage=outage, api_key=api_key or "")
        for name, value in summary.items():
            console.print(f"{name}: {value}", markup=False, highlight=False, soft_wrap=True)
        problems = summary["problems"]
    else:
        began = time.monotonic()
        asked = Asked(rounds, failovers, long_freezes, freeze_seconds, fault, time_factor, seed, updates, features)
        with terminal.own_processes(out), progress_bar("chaos", rounds + failovers + long_freezes) as advance:
            tallies, skipped = play_all(asked, out, advance)
        faults, problems = {kind: tally.summary() for kind, tally in tallies.items()}, problems_of(tallies)
        summary = {"ok": not problems, "seed": seed, "seconds": round(time.monotonic() - began, 1)}
        summary |= {"faults": faults, "skipped": skipped}
        print_table("Acknowledged and settled", HEAD, [tally.row(kind) for kind, tally in tallies.items()])
        for name, reason in skipped.items():
            print_note(f"skipped: {name}: {reason}")
    terminal.end_with(out, summary, problems)


@app.command()
def upgrade(
    way: Annotated[list[upgrades.Way], typer.Argument(help="What is upgraded; compose needs Docker.")],
    new: Annotated[Path, flag("Checkout of the new build.")],
    old: Annotated[Path, flag("Checkout of the build before.")] = Path(),
    out: Annotated[Path, flag("Folder for summary.json, logs and what happened when.")] = Path("runs/upgrade"),
) -> None:
    """Upgrade three replicas under load and go back: no 5xx, no connection cut, and all counts exactly once."""
    with terminal.own_processes(out):
        found = [each for one in way for each in upgrades.rehearse(one, old, new, out)]
    print_table("Upgraded under load", upgrades.HEAD, map(upgrades.row, found))
    terminal.end_with(out, found, [f"{each['upgrade']}: {text}" for each in found for text in each["problems"]])


@app.command()
def drills(
    drill: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(drilled.NAMES)}; or all.")] = None,
    factor: Annotated[float, flag("Divides all times of the alerts.", 1)] = 12,
    out: Annotated[Path, flag("Folder for summary.json, logs and configurations.")] = Path("runs/drills"),
) -> None:
    """Set up replicas with nginx, keys and Prometheus, and break them: each alert fires, and is resolved."""
    names = drill or drilled.NAMES
    if unknown := set(names) - set(drilled.NAMES):
        raise typer.BadParameter(f"no {sorted(unknown)[0]}; there are {', '.join(drilled.NAMES)}")
    with terminal.own_processes(out), progress_bar("drills", len(names)) as advance:
        found = drilled.play(names, out, factor, advance)
    print_table(f"Times of alerts divided by {factor:g}", drilled.HEAD, map(drilled.row, found))
    terminal.end_with(out, found, [f"{each['drill']}: {text}" for each in found for text in each["problems"]])


class Part(StrEnum):
    """What the bench measures; the first six are parts of ``throughput.PARTS``."""

    FLOORS = "floors"
    """Endpoints that do less, and what one would write instead."""
    SESSIONS = "sessions"
    """Act and feedback in one session and in many."""
    README = "readme"
    """The same in sessions as the README creates them."""
    ARMS = "arms"
    """Few arms and many, few outstanding decisions and many."""
    BULK = "bulk"
    """Calls of 100 acts or events."""
    REST = "rest"
    """Views, lists and creations."""
    WORKERS = "workers"
    """Services with one worker and with more."""
    SEGMENTS = "segments"
    """All pages of the segments of a session."""
    STORED = "stored"
    """Bytes of the log, and memory of idle sessions."""
    TURNS = "turns"
    """For how long the largest requests block the event loop."""
    START = "start"
    """Import of the application, and a start until it is ready."""


IDLE_FOR_EACH = 5
"""Idle sessions for each of the ``--sessions`` that are used."""


@app.command()
def bench(
    seconds: Annotated[float, flag("Seconds of each target in a round; wrk takes whole ones.", 0.1, 3600)] = 3.0,
    repetitions: Annotated[int, flag("Rounds; each calls every target.", 1)] = 3,
    clients: Annotated[int, flag("Connections; each sends a request after the answer to the one before.", 1)] = 32,
    n_arms: Annotated[int, flag("Arms of each session.", 2, 100_000)] = 100,
    sessions: Annotated[int, flag("Sessions where there are many.", 1)] = 1000,
    part: Annotated[list[Part] | None, flag("Part to measure; repeat it for several. All if not given.")] = None,
    with_wrk: Annotated[bool, Option("--wrk/--no-wrk", help="Let wrk make the load, if installed.")] = True,
    out: Annotated[Path, flag("Folder for summary.json and the logs.")] = Path("runs/bench"),
    page: Annotated[Path | None, flag("Write the tables into this page, and the figures into results/.")] = None,
) -> None:
    """Measure the service beside endpoints that do less: rates, processor times and bytes."""
    parts = set(part or Part)
    if page is not None and parts != set(Part):
        raise typer.BadParameter("the page has all parts")
    check_marks(page, report.MARKS)
    program, has_peers = find_wrk() if with_wrk else None, find_spec("river") is not None
    if with_wrk and program is None:
        print_note("clients in Python make the load: wrk is not installed")
    if not has_peers and Part.FLOORS in parts:
        print_note("river is left out: it is not installed (extra peers)")
    options = Options(seconds, repetitions, clients, n_arms, sessions, wrk=program, peers=has_peers)
    with terminal.own_processes(out), tempfile.TemporaryDirectory(prefix="bench-") as data:
        summary: dict[str, Any] = {"date": dt.datetime.now(dt.UTC).date().isoformat(), "machine": machine()}
        generator = throughput.PYTHON if program is None else throughput.WRK
        summary |= {"options": options._asdict(), "generator": generator}
        if parts & {*throughput.PARTS, Part.TURNS}:  # Turns are compared with bare ASGI.
            names = names_of(options, parts)
            with progress_bar("rates", repetitions * len(names)) as advance:
                summary |= throughput.measure(options, names, Path(data), out, advance)
        if Part.WORKERS in parts:
            with progress_bar("workers", repetitions * 2 * len(throughput.WORKERS)) as advance:
                summary["workers"] = throughput.measure_workers(options, Path(data), out, advance)
        with terminal.messages.status("segments, bytes, start"):
            if Part.SEGMENTS in parts:
                summary["segments"] = footprint.listed_segments(clients, repetitions)
            if Part.STORED in parts:
                summary["stored"] = footprint.stored_bytes(clients, seconds, IDLE_FOR_EACH * sessions)
            if Part.START in parts:
                summary["start"] = footprint.start_times(repetitions)
        if Part.TURNS in parts:
            with progress_bar("turns", repetitions * len(turns.ALL)) as advance:
                summary["turns"] = turns.measure(repetitions, advance)
        terminal.write_summary(out, summary)
    for title, head, rows in report.tables(summary):
        print_table(title, head, rows)
    if page is not None:
        report.write(summary, page)
    print_written(out if page is None else page)


@app.command()
def capacity(
    seconds: Annotated[float, flag("Seconds of requests of each kind, to many sessions and to one.", 0.1)] = 10.0,
    sessions: Annotated[int, flag("Sessions whose memory is measured; a tenth with more than 100 arms.", 1)] = 500,
    clients: Annotated[int, flag("Connections; each sends a request after the answer to the one before.", 1)] = 32,
    learner: Annotated[list[str] | None, flag("Kind of learner; repeat it for several. All if not given.")] = None,
    n_arms: Annotated[list[int] | None, flag("Arms; repeat it for several. 10 and 1,000 if not given.")] = None,
    out: Annotated[Path, flag("Folder for summary.json.")] = Path("runs/capacity"),
    page: Annotated[Path | None, flag("Write the table into this page.")] = None,
) -> None:
    """Measure what a session, a request and an event id take, by learner and arms: bytes and processor time."""
    kinds = learner or list(measured_capacity.LEARNERS)
    if unknown := set(kinds) - measured_capacity.LEARNERS.keys():
        raise typer.BadParameter(f"{sorted(unknown)[0]} is not measured", param_hint="--learner")
    check_marks(page, measured_capacity.MARKS)
    asked = [(kind, size) for kind in kinds for size in n_arms or measured_capacity.N_ARMS]
    with terminal.own_processes(out), progress_bar("capacity", len(asked)) as advance:
        found = []
        for kind, size in asked:
            found.append((kind, size, measured_capacity.measure(kind, size, sessions, clients, seconds)))
            advance()
    date, about = dt.datetime.now(dt.UTC).date().isoformat(), machine()
    terminal.write_summary(out, {"date": date, "machine": about, "found": found})
    for title, (head, *rows) in zip(("Bytes", "Processor time"), measured_capacity.tables(found), strict=True):
        print_table(title, head, rows)
    if page is not None:
        told = f"{clients} clients; Python {about['python']}, load average {about['load_average'][0]:.1f}; {date}."
        measured_capacity.write(found, told, page)
    print_written(out if page is None else page)
