"""Operators that compute every element from the elements in its place."""
