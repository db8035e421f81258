"""Tasks: their form, the reports that they ask for, and how a worker takes them in."""
