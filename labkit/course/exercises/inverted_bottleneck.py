"""An inverted bottleneck, what it costs, and what one of its outputs sees."""

from labkit.course.exercises._bill_steps import block_products, receptive_field, wide_bytes
from labkit.course.exercises._inverted_block import mbconv

NOTEBOOK = "4_vision_low_level/8b_inverted_bottleneck"

EXERCISES = (block_products, wide_bytes, mbconv, receptive_field)
