"""Items as files: read from a group's stream, written once, acknowledged when they are on disk."""
