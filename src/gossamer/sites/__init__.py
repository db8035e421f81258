"""Site files: what a source is, in YAML, and what its pages say. Pure: nothing here fetches or stores."""
