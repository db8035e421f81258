"""Tasks: their form, what they ask to be told, and how a worker takes them in."""
