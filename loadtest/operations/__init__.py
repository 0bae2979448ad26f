"""Rehearsals of what operators do: upgrades and ways back, drills of alerts, a restore."""
