"""A chapter as a file: what it holds, how long it reads, its editions, what is wrong with it."""
