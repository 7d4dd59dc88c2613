"""Graphs of operators and their gradients, drawn."""
