"""Pages between their lease and their settlement."""
