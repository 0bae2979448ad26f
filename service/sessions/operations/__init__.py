"""What can be done to a session's run: one file an operation, applied by the committer."""

from service.sessions.operations.act import Act
from service.sessions.operations.change_arms import ChangeArms
from service.sessions.operations.feedback import Feed
from service.sessions.operations.settle_due import Sweep
from service.sessions.operations.show import Show

__all__ = ["Act", "ChangeArms", "Feed", "Show", "Sweep"]
