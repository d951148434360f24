"""YouTube Faces."""
