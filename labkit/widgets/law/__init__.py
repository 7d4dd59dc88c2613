"""What was measured, beside what a law, a bound or a peer says."""
