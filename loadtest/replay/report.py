"""Report a replay: a summary, a curve and a figure."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from loadtest import figures
from loadtest.client import CallLog
from loadtest.replay.replay import Pace, Record
from loadtest.replay.session import ClickStream, Plan
from loadtest.replay.worlds import World, total_delay
from service.learners.base import FloatArray, IntArray

PERCENTILES = (50, 95, 99)
OF_CLICKS = {
    "click rate": "click_rate",
    "click rate, uniform play": "uniform_click_rate",
    "click rate, best fixed action": "best_click_rate",
    "expired share of decisions": "expired_share",
    "late share of clicks": "late_share",
}
"""Line of the table to field of the summary."""
MAX_LISTED = 1000
"""Pending events named one by one; beyond, they are only counted."""


class Report(NamedTuple):
    """A summary for machines and the curves behind it."""

    summary: dict[str, Any]
    slots: IntArray
    regret: FloatArray
    """Reg_t / T, shape (slots,)."""
    baseline: FloatArray
    """Reg_t / T of a player who never learns."""
    baseline_name: str


def build_report(
    world: World, plan: Plan, record: Record, log: CallLog, pace: Pace, facts: Mapping[str, Any]
) -> Report:
    """Put a replay's figures together; ``facts`` are further fields of the summary.

    Regret is taken against the best fixed action over the slots played, in expectation form.
    """
    played = max(record.played, 1)
    world = world.head(record.played)
    best, baseline = world.best_fixed(), world.baseline()
    regret = (record.expected - best.losses).cumsum() / played
    still = (baseline.losses - best.losses).cumsum() / played
    is_arm, problems = isinstance(best.action, int), record.problems()
    # ``uniform_*`` for arms; for points, where nobody plays uniformly, the same of standing still.
    prefix = "uniform" if baseline.name == "uniform play" else "still"
    timed = log.seconds | {"slot": pace.seconds}
    last, still_last = (float(curve[-1]) if curve.size else None for curve in (regret, still))
    settled = None if record.counts is None else record.counts.feedbacks
    listed = [
        {"slot": event.slot} | ({} if event.arm is None else {"arm": event.arm})
        for event in record.pending[:MAX_LISTED]
    ]
    summary: dict[str, Any] = {"scenario": world.name, "learner": plan.spec.kind, "slots": record.played}
    summary |= {"regret_per_slot": last, "realised_regret_per_slot": _mean(record.losses - best.losses)}
    summary |= {"mean_loss": _mean(record.losses), "expected_mean_loss": _mean(record.expected)}
    summary |= {f"{prefix}_regret_per_slot": still_last, f"{prefix}_mean_loss": _mean(baseline.losses)}
    summary |= {"best_arm": best.action if is_arm else None, "best_action": best.label if is_arm else best.action}
    summary |= {"best_mean_loss": _mean(best.losses), "total_delay": total_delay(record.played)._asdict()}
    summary |= {"seed": plan.seed, "sent": record.sent, "acknowledged": record.acknowledged}
    summary |= {"duplicates": record.duplicates, "surplus": record.surplus, "settled": settled}
    summary |= {"unanswered": len(record.unanswered), "pending": len(record.pending), "pending_events": listed}
    summary |= {"events_sha256": record.digest, "interrupted": record.interrupted, "problems": problems}
    summary["ok"] = not problems and not record.interrupted
    summary["latency_ms"] = {kind: _latency(np.array(seconds)) for kind, seconds in timed.items() if seconds}
    summary |= {"requests": log.calls, "seconds": record.seconds, "retries": sum(log.retries.values())}
    summary["requests_per_second"] = log.calls / record.seconds if record.seconds > 0 else None
    summary |= {"retry_reasons": dict(log.retries), "client_errors": log.client_errors, **facts}
    return Report(summary, np.arange(1, record.played + 1), regret, still, baseline.name)


def _latency(seconds: FloatArray) -> dict[str, float]:
    named = {f"p{percent}": 1000 * float(np.percentile(seconds, percent)) for percent in PERCENTILES}
    return named | {"max": 1000 * float(seconds.max())}


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if values.size else None


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write ``summary.json``, ``curve.csv`` and ``regret.png``, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("summary.json", "curve.csv", "regret.png")]
    paths[0].write_text(json.dumps(report.summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    column = report.baseline_name.replace(" ", "_")
    with paths[1].open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["slot", "normalised_regret", column])
        writer.writerows(zip(report.slots.tolist(), report.regret.tolist(), report.baseline.tolist(), strict=True))
    rates = report.summary.get("rates")
    name = figures.display_name(report.summary["learner"]) + (f" ({rates} rates)" if rates else "")
    figures.plot_replay(report.slots, report.regret, report.baseline, (name, report.baseline_name), paths[2])
    return paths


def table_of(summary: Mapping[str, Any]) -> Table:
    """Return the table a command ends with."""
    title = f"{summary['scenario']}, {summary['learner']}, {summary['slots']:,} slots, seed {summary['seed']}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    without = "uniform" if "uniform_mean_loss" in summary else "still"
    other = "uniform play" if without == "uniform" else "standing still"
    best = f" ({summary['best_action']})" if summary["best_arm"] is not None else ""
    settled = "unknown" if summary["settled"] is None else f"{summary['settled']:,}"
    numbers = {
        "regret per slot": summary["regret_per_slot"],
        f"regret per slot, {other}": summary[f"{without}_regret_per_slot"],
        "mean loss": summary["mean_loss"],
        f"mean loss, {other}": summary[f"{without}_mean_loss"],
        f"mean loss, best fixed action{best}": summary["best_mean_loss"],
    }
    if "click_rate" in summary:
        numbers |= {label: summary[name] for label, name in OF_CLICKS.items()}
        more = ("clicks that found nothing outstanding", f"{summary['surplus']:,}")
    else:
        delay = summary["total_delay"]
        more = ("total delay D, strict / only d_T cut", f"{delay['strict']:,} / {delay['last']:,}")
    counts = f"{summary['acknowledged']:,} / {settled} / {summary['pending']:,}"
    lines = [
        *((label, _number(value)) for label, value in numbers.items()),
        more,
        ("events acknowledged / settled / pending", counts),
        ("calls, per second", f"{summary['requests']:,}, {_number(summary['requests_per_second'], 0)}"),
        ("retries / client errors", f"{summary['retries']} / {summary['client_errors']}"),
    ]
    for kind, latency in summary["latency_ms"].items():
        times = " / ".join(f"{value:.3f}" for value in latency.values())
        lines.append((f"{kind}: p50 / p95 / p99 / max ms", times))
    for line in lines:
        table.add_row(*line)
    return table


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def click_facts(world: World, stream: ClickStream, record: Record) -> dict[str, Any]:
    """Further fields of the summary; rates are per impression."""
    played = record.played
    world = world.head(played)
    clicked = record.losses == 0
    late = clicked & (stream.click_delays(played) > stream.after_seconds)
    expired = None if record.counts is None else record.counts.expired
    rates = {"click_rate": clicked, "uniform_click_rate": 1 - world.baseline().losses}
    rates["best_click_rate"] = 1 - world.best_fixed().losses
    facts: dict[str, Any] = {"impressions": played, "clicks": int(clicked.sum()), "expired": expired}
    facts |= {name: _share(np.sum(of), played) for name, of in rates.items()}
    facts |= {"expired_share": None if expired is None else _share(expired, played)}
    facts |= {"late_clicks": int(late.sum()), "late_share": _share(late.sum(), clicked.sum())}
    return facts | {"stream": stream._asdict(), "total_delay": None}


def _share(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole else None
