"""A change that adds one operator to labkit, and the reviewer that reads it."""

from labkit.course.review.change import Change
from labkit.course.review.reviewer import Review, review

__all__ = ["Change", "Review", "review"]
