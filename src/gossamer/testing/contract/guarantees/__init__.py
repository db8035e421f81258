"""The guarantees of the frontier as tests."""
