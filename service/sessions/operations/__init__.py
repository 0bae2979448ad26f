"""What can be done to a session's run: one file an operation, applied by the committer."""

from service.sessions.operations.act import Act
from service.sessions.operations.change_arms import ChangeArms
from service.sessions.operations.feedback import SettleFeedback
from service.sessions.operations.settle_due import SettleDue
from service.sessions.operations.show import Show

__all__ = ["Act", "ChangeArms", "SettleDue", "SettleFeedback", "Show"]
