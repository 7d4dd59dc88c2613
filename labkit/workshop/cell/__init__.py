"""Where a learner's programs run: behind walls of the kernel, forked from one warm process."""
