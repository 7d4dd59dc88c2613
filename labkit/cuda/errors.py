"""What can go wrong on the device, under CUDA's own names."""

from typing import Any


class CudaError(RuntimeError):
    """A call on the device failed; `code` is CUDA's name for it.

    Source   c10/cuda/CUDAException.h  C10_CUDA_CHECK
    """

    code = "cudaErrorUnknown"

    def __init__(self, message: str, code: str | None = None) -> None:
        if code is not None:
            self.code = code
        super().__init__(f"{self.code}: {message}")


class InvalidValueError(CudaError, ValueError):
    """An argument lies outside what the call allows."""

    code = "cudaErrorInvalidValue"


class OutOfMemoryError(CudaError, MemoryError):
    """The device has no room for the request."""

    code = "cudaErrorMemoryAllocation"

    def __init__(self, requested: int, free: int, total: int, largest: int | None = None) -> None:
        self.requested, self.free, self.total, self.largest = requested, free, total, largest
        tail = "" if largest is None else f", the largest free range holds {largest}"
        super().__init__(
            f"out of memory: asked for {requested} bytes; {free} of {total} bytes are free{tail}"
        )


class InvalidLaunchError(CudaError, ValueError):
    """A grid, block or shared memory size the device cannot run; nothing was run."""

    code = "cudaErrorInvalidConfiguration"


class ArgumentError(CudaError, TypeError):
    """A kernel argument of the wrong number, size, dtype or device; nothing was run."""

    code = "cudaErrorInvalidValue"


class CaptureError(CudaError):
    """A call that a capturing stream does not allow."""

    code = "cudaErrorStreamCaptureUnsupported"


class CompileError(CudaError):
    """The compiler refused the CUDA source; the message carries its diagnostics."""

    code = "NVRTC_ERROR_COMPILATION"


class NvrtcMissingError(CudaError):
    """NVRTC is not installed: no PTX, no SASS, no register counts."""

    code = "labkitErrorNvrtcMissing"


class UnsupportedFeatureError(CompileError):
    """The source uses a CUDA feature that the emulator refuses rather than gets wrong."""

    code = "labkitErrorUnsupportedFeature"


class KernelFailure(CudaError):
    """A kernel hung, faulted, aborted or failed an assertion. Device memory is kept.

    report   plain data: kind, message, kernel, block, thread, file, line, and what else is known

    Differs  after such an error a real GPU's context is lost for the process; here the next
             launch simply works.
    """

    CODES = {  # noqa: RUF012
        "timeout": "cudaErrorLaunchTimeout",
        "fault": "cudaErrorIllegalAddress",
        "misaligned": "cudaErrorMisalignedAddress",
        "assert": "cudaErrorAssert",
    }

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        where = f"{report['file']}:{report['line']}" if report.get("line") else "unknown line"
        block, thread = tuple(report["block"]), tuple(report["thread"])
        text = f"kernel '{report['kernel']}' at {where}, block {block}, thread {thread}: "
        super().__init__(
            text + report["message"], self.CODES.get(report["kind"], "cudaErrorLaunchFailure")
        )
