"""Whether a site file can be used: what no single key can tell."""
