"""The command line: one module per command."""

from __future__ import annotations

import typer

from loadtest.commands.bench import bench
from loadtest.commands.chaos import chaos
from loadtest.commands.day import day
from loadtest.commands.during import during
from loadtest.commands.growth import growth
from loadtest.commands.paper import paper
from loadtest.commands.replay import replay
from loadtest.commands.stored import stored
from loadtest.commands.study import study
from loadtest.commands.turns import turns

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(day)
app.command()(replay)
app.command()(paper)
app.command()(study)
app.command()(chaos)
app.command()(during)
app.command()(bench)
app.command()(growth)
app.command()(turns)
app.command()(stored)


@app.callback()
def main() -> None:
    """Replays of the paper's streams against the service, over HTTP or in process."""
