"""Rows in one transaction: which are meant, their histories, which page brought them, and whether their source is gone."""
