"""Character sets: what pages call them, and which one a page is in."""
