"""Derivatives: nn."""

from labkit.autograd.derivatives.row import Row

ROWS: list[Row] = []
