"""What can be done to a session's run: one file an operation, applied by the committer."""

from service.operations.act import Act
from service.operations.change_arms import ChangeArms
from service.operations.feed import Feed
from service.operations.show import Show
from service.operations.sweep import Sweep

__all__ = ["Act", "ChangeArms", "Feed", "Show", "Sweep"]
