"""Operators that look along dimensions: sums, scans, statistics."""
