"""Is there an NVIDIA GPU with a driver? Asked before any package is installed."""

import shutil
import subprocess


def has_gpu() -> bool:
    """True when the driver lists at least one GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return False
    try:
        listing = subprocess.run(
            [tool, "-L"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return listing.returncode == 0 and "GPU 0" in listing.stdout
