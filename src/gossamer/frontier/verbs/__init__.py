"""Each call to the server's functions, as a conversation without I/O."""
