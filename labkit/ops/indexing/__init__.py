"""Elements read and written by their places."""
