"""Every module that defines operators: importing this one makes them all callable.

A new module adds its line.
"""

from labkit.ops import (  # noqa: F401
    amp_kernels,
    cpu_fallback,
)
from labkit.ops.convolution import (  # noqa: F401
    adaptive_pooling,
    avg_pooling,
    conv_layers,
    convolution,
    max_pooling,
)
from labkit.ops.cuda import all as device_kernels  # noqa: F401
from labkit.ops.indexing import (  # noqa: F401
    advanced_indexing,
    masked,
)
from labkit.ops.layers import (  # noqa: F401
    batch_norm,
    composite_loss,
    embedding,
    layer_norm,
    loss,
    nll_loss,
)
from labkit.ops.linear_algebra import (  # noqa: F401
    blas,
    matmul,
    triangular,
)
from labkit.ops.pointwise import (  # noqa: F401
    activation,
    arithmetic,
    binary,
    conjugate,
    scalar_overloads,
    ternary,
    unary,
)
from labkit.ops.random import (  # noqa: F401
    device_distributions,
    distributions,
    random_factories,
)
from labkit.ops.reduction import (  # noqa: F401
    membership,
    reduction,
    scan,
    softmax,
    statistics,
    truth,
)
from labkit.ops.shape import (  # noqa: F401
    joining,
    reinterpret,
    repeating,
    shape,
    split,
    view,
    view_in_place,
    view_scatter,
)
from labkit.ops.tensors import (  # noqa: F401
    moving,
    tensor_factories,
)
