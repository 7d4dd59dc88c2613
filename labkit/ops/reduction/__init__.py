"""Operators that look along dimensions: sums, scans, sorting, statistics."""
