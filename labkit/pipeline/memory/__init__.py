"""Where frames and activations lie: within a stated size, shared, mapped, pooled."""
