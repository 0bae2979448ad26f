"""The history of a session: samples of its counts and of what its learner would do, oldest first."""

from __future__ import annotations

from typing import Any

from ...cooperative import Body, answer_body, json_chunks
from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...errors import UnknownSessionError
from ...serialization.summary import Sample, shown_mean, time_text
from ..history.thinning import PERIOD_SECONDS, dropped, place_of
from ..read import Reader


async def history_page(reader: Reader, session_id: str) -> Body:
    """Return the JSON of a session's history: see ``Sessions.history``.

    Parameters
    ----------
    reader : reads the session, which says how its losses were posted
    session_id : of the session

    Raises
    ------
    UnknownSessionError, StateCorruptError, StoreUnavailableError
    """
    _, cached = await reader.load(session_id)
    stored = await reader.store.history.read(session_id)
    if stored is None:
        raise UnknownSessionError
    left = stored.keys() - dropped(stored, place_of(reader.store.now()))
    samples = (Sample.decode(stored[place]) for place in sorted(left))
    rows = [_row(cached.run, sample) for sample in samples if sample is not None]
    return answer_body(json_chunks({"period_seconds": PERIOD_SECONDS, "samples": rows}))


def _row(run: Run, sample: Sample) -> dict[str, Any]:
    losses, over_arms = run.params.losses, isinstance(run, ArmRun)
    mean = losses.posted(sample.mean_loss) if over_arms else sample.mean_loss
    row = {
        "at": time_text(sample.at),
        "slot": sample.slot,
        "feedbacks": sample.feedbacks,
        "outstanding": sample.outstanding,
        "expired": sample.expired,
        "removed": sample.removed,
        "voided": sample.voided,
        "total_delay": sample.total_delay,
        "counted": sample.losses,
        f"mean_{losses.word}": shown_mean(mean) if sample.losses else None,
    }
    if not over_arms:
        return {**row, "x": sample.x}
    arms = [{"arm": arm, "probability": p} for arm, p in sample.arms]
    return {**row, "effective_arms": sample.effective_arms, "arms": arms}
