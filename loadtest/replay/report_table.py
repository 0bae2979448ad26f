"""What a replay found, as the table its command ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table


def table_of(summary: Mapping[str, Any]) -> Table:
    """Return the table a command ends with."""
    title = f"{summary['scenario']}, {summary['learner']}, {summary['slots']:,} slots, seed {summary['seed']}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in _lines(summary):
        table.add_row(name, value)
    return table


def _lines(summary: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    without = "uniform" if "uniform_mean_loss" in summary else "still"
    other = "uniform play" if without == "uniform" else "standing still"
    best = f" ({summary['best_action']})" if summary["best_arm"] is not None else ""
    lines = [
        ("regret per slot", _number(summary["regret_per_slot"])),
        (f"regret per slot, {other}", _number(summary[f"{without}_regret_per_slot"])),
        ("mean loss", _number(summary["mean_loss"])),
        (f"mean loss, {other}", _number(summary[f"{without}_mean_loss"])),
        (f"mean loss, best fixed action{best}", _number(summary["best_mean_loss"])),
        *_click_lines(summary),
        ("events acknowledged / settled / pending", _counts(summary)),
        ("calls, per second", f"{summary['requests']:,}, {_number(summary['requests_per_second'], 0)}"),
        ("retries / client errors", f"{summary['retries']} / {summary['client_errors']}"),
    ]
    for kind, latency in summary["latency_ms"].items():
        lines.append(
            (f"{kind}: p50 / p95 / p99 / max ms", " / ".join(f"{value:.3f}" for value in latency.values()))
        )
    return lines


def _click_lines(summary: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    if "click_rate" not in summary:
        delay = summary["total_delay"]
        return [("total delay D, strict / only d_T cut", f"{delay['strict']:,} / {delay['last']:,}")]
    rates = [
        (label, _number(summary[name]))
        for label, name in (
            ("click rate", "click_rate"),
            ("click rate, uniform play", "uniform_click_rate"),
            ("click rate, best fixed action", "best_click_rate"),
            ("expired share of decisions", "expired_share"),
            ("late share of clicks", "late_share"),
        )
    ]
    return [*rates, ("clicks that found nothing outstanding", f"{summary['surplus']:,}")]


def _counts(summary: Mapping[str, Any]) -> str:
    settled = "unknown" if summary["settled"] is None else f"{summary['settled']:,}"
    return f"{summary['acknowledged']:,} / {settled} / {summary['pending']:,}"


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
