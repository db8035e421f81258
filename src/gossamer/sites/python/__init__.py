"""Sites whose pages Python functions read, and sites written in Python."""
