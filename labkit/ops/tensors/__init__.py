"""New tensors, their text, and elements moved from one to another."""
