"""FEEDS of a fleet: one file, each item once."""
