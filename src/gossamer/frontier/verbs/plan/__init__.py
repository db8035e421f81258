"""What planners ask for. Generators without I/O."""
