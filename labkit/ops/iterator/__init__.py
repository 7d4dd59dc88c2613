"""The builder in front of every element-wise loop: one shape, one order, strides in bytes."""
