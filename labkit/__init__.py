"""labkit: a readable scale model of PyTorch's own tree."""
