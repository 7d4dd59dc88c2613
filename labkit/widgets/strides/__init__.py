"""Where the elements of a tensor lie, drawn."""
