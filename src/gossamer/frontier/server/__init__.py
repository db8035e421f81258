"""What the server holds and runs: key names and the library of Lua functions."""
