"""PyTorch's memory snapshots: read, checked, told and explained."""
