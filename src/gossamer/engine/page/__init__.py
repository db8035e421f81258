"""One page from its lease to its settlement."""
