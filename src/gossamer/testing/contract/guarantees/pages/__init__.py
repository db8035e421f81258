"""Lanes that keep page records."""
