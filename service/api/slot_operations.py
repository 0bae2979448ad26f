"""What the calls about slots ask of a session: the operations that the routes and ``hot_routes`` make alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import InvalidRequestError
from ..models.events import Event, Surplus
from ..sessions.act import Act
from ..sessions.feedback import SettleFeedback
from ..settings import Settings
from . import schemas

ANY_ARM = schemas.Act()
"""The body of an act that may draw every arm."""


def act_of(settings: Settings, body: schemas.Act, is_gone: Callable[[], bool] | None) -> Act:
    """Make the operation of a call of act.

    Parameters
    ----------
    settings : of the service: the largest act
    body : of the request, checked
    is_gone : whether the client has left; None where nobody knows
    """
    if body is ANY_ARM:
        return Act(1, settings.max_act_cells, single=True, is_gone=is_gone)
    return Act(1, settings.max_act_cells, single=True, choice=body.choice, segment=body.segment, is_gone=is_gone)


def acts_of(settings: Settings, body: schemas.Acts, is_gone: Callable[[], bool] | None) -> Act:
    """Make the operation of a call of acts.

    Parameters
    ----------
    settings : of the service: the largest act, and most acts of a call
    body : of the request, checked
    is_gone : whether the client has left; None where nobody knows

    Raises
    ------
    InvalidRequestError
        for more acts than the settings allow.
    """
    if body.count > settings.max_acts:
        raise InvalidRequestError.of("count", f"must not exceed {settings.max_acts}")
    return Act(
        body.count,
        settings.max_act_cells,
        choice=body.choice,
        distinct=body.distinct,
        segment=body.segment,
        is_gone=is_gone,
    )


def feedback_of(events: Sequence[Event], on_surplus: Surplus | None) -> SettleFeedback:
    """Make the operation of a call of feedback.

    Parameters
    ----------
    events : the one event of the request, checked
    on_surplus : as the query says; None where it does not say
    """
    return SettleFeedback(events, on_surplus, single=True)


def feedbacks_of(
    events: Sequence[Event], on_surplus: Surplus | None, *, skips_invalid: bool = False
) -> SettleFeedback:
    """Make the operation of a call of feedbacks.

    Parameters
    ----------
    events : of the request, checked
    on_surplus : as the query says; None where it does not say
    skips_invalid : whether events that do not fit the session are skipped
    """
    return SettleFeedback(events, on_surplus, skips_invalid=skips_invalid)
