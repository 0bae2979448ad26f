"""How times and rates grow with sessions, arms, outstanding decisions, events in a call, and workers."""
