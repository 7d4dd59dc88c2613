"""The teacher's page: who is where, and what fails for how many. It sends nothing anywhere."""
