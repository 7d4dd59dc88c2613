"""What stands at the Autograd and ADInplaceOrView keys of every operator.

    recording_kernel   a call is computed below, and recorded: read this first
    backward_node      the node of such a call: `apply` evaluates the formulas of its row
    differentiation    a row taken apart: what it differentiates, and what it has to save
    no_derivative      operators that have no row; fallback: operators nobody told autograd of
    inplace_or_view    calls without an autograd key
    install            which operator gets which

Source   tools/autograd/gen_variable_type.py
"""
