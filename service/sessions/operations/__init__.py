"""What can be done to a session's run: a file or a folder for each operation, applied by ``commit.batch``."""

from .act import Act
from .change_arms import ChangeArms, ReplaceArms
from .change_session import ChangeSession
from .feedback import SettleFeedback
from .next_due import NextDue
from .show import Show

__all__ = ["Act", "ChangeArms", "ChangeSession", "NextDue", "ReplaceArms", "SettleFeedback", "Show"]
