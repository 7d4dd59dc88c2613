"""A workshop in a box: what to say, a room on one machine, the teacher's page, and grades."""
