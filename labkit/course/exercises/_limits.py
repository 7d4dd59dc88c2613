"""What most exercises keep out of reach, and the sentence that tells the learner."""

LIBRARIES = ("torch.*", "numpy.*", "labkit.*")
NO_LIBRARIES = ("plain Python: no torch, no NumPy, no labkit",)
TORCH_AND_LABKIT = ("torch.*", "labkit.*")
PLAIN_PYTHON = ("plain Python: no torch, no labkit",)
