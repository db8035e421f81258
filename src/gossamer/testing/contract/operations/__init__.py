"""What operators and producers do, as tests."""
