"""What can be done to a session's run: one file an operation, each applied by ``commit.batch``."""

from .act import Act
from .change_arms import ChangeArms, ReplaceArms
from .feedback import SettleFeedback
from .next_due import NextDue
from .show import Show

__all__ = ["Act", "ChangeArms", "NextDue", "ReplaceArms", "SettleFeedback", "Show"]
