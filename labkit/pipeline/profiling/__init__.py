"""What a run waited for: recorded or simulated, its critical path and its queues."""
