"""The cells of LSTM and GRU, which PyTorch asks of every device in one piece.

Made of operators that have kernels; the host has no such cells to fall back on.

Source   aten/src/ATen/native/cuda/RNN.cu  lstm_cell_forward, gru_cell_forward
"""

from typing import Any

import torch

Optional = Any  # torch.Tensor | None, which mypy cannot see


def _gates(input_gates: torch.Tensor, bias: Optional) -> torch.Tensor:
    return input_gates if bias is None else input_gates + bias


def lstm_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    cx: torch.Tensor,
    input_bias: Optional = None,
    hidden_bias: Optional = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The new h and c, [N, H] each; and the four gates [N, 4 H] for the way back."""
    gates = _gates(input_gates, input_bias) + _gates(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


def lstm_cell_backward(
    grad_hy: Optional,
    grad_cy: Optional,
    cx: torch.Tensor,
    cy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,
) -> tuple[Any, Any, Any]:
    """Gradients of the gates, of c, and of the biases."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    dh = torch.zeros_like(cy) if grad_hy is None else grad_hy
    ct = cy.tanh()
    dc = dh * o * (1 - ct * ct) + (0 if grad_cy is None else grad_cy)
    grad_gates = torch.cat(
        (
            dc * g * i * (1 - i),
            dc * cx * f * (1 - f),
            dc * i * (1 - g * g),
            dh * ct * o * (1 - o),
        ),
        1,
    )
    return grad_gates, dc * f, grad_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: Optional = None,
    hidden_bias: Optional = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new h [N, H]; and what the way back needs, [N, 5 H]."""
    ir, iz, inn = _gates(input_gates, input_bias).chunk(3, 1)
    hr, hz, hn = _gates(hidden_gates, hidden_bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inn + r * hn).tanh()
    return n + z * (hx - n), torch.cat((r, z, n, hx, hn), 1)


def gru_cell_backward(
    grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool
) -> tuple[Any, ...]:
    """Gradients of both kinds of gates, of h, and of both biases."""
    r, z, n, hx, hn = workspace.chunk(5, 1)
    dn = grad_hy * (1 - z) * (1 - n * n)
    dz = grad_hy * (hx - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    grad_input = torch.cat((dr, dz, dn), 1)
    grad_hidden = torch.cat((dr, dz, dn * r), 1)
    sums = (grad_input.sum(0), grad_hidden.sum(0)) if has_bias else (None, None)
    return grad_input, grad_hidden, grad_hy * z, *sums


CELLS = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
