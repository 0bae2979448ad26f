"""Learners of the study, each in many runs at once."""
