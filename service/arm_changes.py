"""What a change of arms does to a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.committer import Applied, Pause
from service.errors import InvalidRequestError, NoLabelsError
from service.learners.roster import Change, Roster
from service.learners.run import Run
from service.specification import Idempotency

LIVES = 10
"""A session may have had this many times the arms it may have at once: indexes and labels are kept for ever."""


@dataclass(frozen=True, slots=True)
class ChangeArms:
    """Remove arms by label, then add some; labels that are not there, or there already, change nothing."""

    add: Sequence[str]
    remove: Sequence[str]
    max_arms: int
    max_label_bytes: int
    view: Callable[[Run, bool], bytes]
    """The answer, of a run and whether its commit puts off the idle deadline."""
    idempotency: Idempotency | None = None
    digests: Sequence[bytes] = ()
    weight: int = 1
    is_use: bool = True

    def check(self, run: Run) -> None:
        """Refuse sessions without labels, and labels that are too long."""
        if run.roster is None or run.roster.names is None:
            raise NoLabelsError
        if any(len(label.encode()) > self.max_label_bytes for label in self.add):
            raise InvalidRequestError.of("add", f"a label has at most {self.max_label_bytes} bytes")

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:  # noqa: ARG002 - arms have no event ids
        """Change the arms, all of them as asked or none."""
        assert run.roster is not None  # noqa: S101 - checked before
        change = run.roster.change(self.add, self.remove)
        self._check_size(run.roster, change)
        changed = bool(change.removed or change.added)
        if changed:
            run.change_arms(change)
            await pause()
        body = self.view(run, changed or self.idempotency is not None)
        return Applied(body, changed=changed, shows_version=True)

    def _check_size(self, roster: Roster, change: Change) -> None:
        staying = len(roster.live) - len(change.removed)
        if not staying:
            raise InvalidRequestError.of("remove", "at least one arm must stay")
        if staying + len(change.added) > self.max_arms:
            raise InvalidRequestError.of("add", f"there may be at most {self.max_arms} arms")
        if roster.size + len(change.added) > LIVES * self.max_arms:
            most = LIVES * self.max_arms
            raise InvalidRequestError.of(
                "add", f"a session may have had at most {most} arms, removed ones included"
            )
