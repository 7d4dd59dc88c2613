"""Programs and kernels with one disease each: what they leave behind, and their source."""
