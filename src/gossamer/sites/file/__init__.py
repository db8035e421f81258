"""Site files: from YAML to a checked site, with the place of every problem."""
