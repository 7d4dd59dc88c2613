"""Normalization, embedding and losses."""
