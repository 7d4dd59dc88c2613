"""Random numbers, drawn as PyTorch draws them."""
