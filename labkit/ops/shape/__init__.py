"""Views, and tensors put together or taken apart."""
