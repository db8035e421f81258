"""The rounds of sites: when they begin, with which seeds, and what comes after them."""
