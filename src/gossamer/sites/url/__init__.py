"""Which page, layer and host a URL belongs to."""
