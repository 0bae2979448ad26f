"""The columns that libraries for off-policy evaluation take: action, reward, pscore, position."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

import numpy as np

from .log_files import LogFileError, parquet_module
from .outcomes import Outcomes

NAMES = ("action", "reward", "pscore", "position")


def write_columns(outcomes: Outcomes, path: Path, loss_range: tuple[float, float] | None) -> None:
    """Write a row for each act whose outcome is known, as .csv, .npz or .parquet by the file's name.

    The position is 0: each slot draws one arm for one place.

    Parameters
    ----------
    outcomes : the acts, as ``match`` returns them
    path : the file, which is written anew; parquet needs the extra ``export``
    loss_range : [best, worst] of a session of losses: its rewards are 1 for the best and 0 for the worst. None
        and a range alike leave rewards as they were posted.

    Raises
    ------
    LogFileError
        for another kind of file, parquet without pyarrow, losses without their range, or a range that is not two
        different finite numbers.
    """
    columns = dict(zip(NAMES, _columns(outcomes, loss_range), strict=True))
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(NAMES)
            rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    elif path.suffix == ".npz":
        with path.open("wb") as file:
            np.savez(file, **columns)  # type: ignore[arg-type]
    elif path.suffix == ".parquet":
        _write_parquet(columns, path)
    else:
        raise LogFileError(f"{path}: columns are written as .csv, .npz or .parquet")


def _columns(outcomes: Outcomes, loss_range: tuple[float, float] | None) -> tuple[np.ndarray, ...]:
    rewards = outcomes.values
    if outcomes.word == "loss":
        if loss_range is None:
            raise LogFileError("this is a log of losses: --loss-range BEST WORST says which reward a loss is")
        best, worst = loss_range
        if best == worst or not np.isfinite(loss_range).all():
            raise LogFileError("--loss-range: give two different numbers, the best loss and the worst")
        rewards = (rewards - worst) / (best - worst)
    return outcomes.arms, rewards, outcomes.probabilities, np.zeros(outcomes.arms.size, dtype=np.int64)


def _write_parquet(columns: dict[str, np.ndarray], path: Path) -> None:
    parquet = parquet_module()
    parquet.write_table(import_module("pyarrow").table(columns), path)
