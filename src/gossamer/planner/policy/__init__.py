"""What the planner decides, as pure functions of a state and a time: no clock, no server, no randomness of its own."""
