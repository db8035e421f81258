"""Pages tried by hand, and test cases of site files."""
