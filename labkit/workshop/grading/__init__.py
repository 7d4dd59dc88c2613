"""What a workshop's answers are worth: run behind walls, kept in nbgrader's book."""
