"""What exercises work on: launches, timed blocks, two ranks, and faults that no diff shows."""
