"""Checks of site files that concern several keys."""
