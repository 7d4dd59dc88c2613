"""Operators that look at windows of an image: convolution, pooling."""
