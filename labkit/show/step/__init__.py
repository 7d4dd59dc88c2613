"""One training step as a list of events, on one clock, from which every lane is drawn."""
