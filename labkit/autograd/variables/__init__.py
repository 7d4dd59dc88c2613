"""What autograd knows of a tensor: who made it, where its gradient goes, whose view it is.

    meta             what is kept of a tensor, in its `autograd_meta`
    variable         questions about that, and the edges of the graph
    tensor_state     what a user asks of or tells a tensor
    retain           a computed tensor keeps its gradient
    saved_variable   a tensor kept for backward, with the version backward needs
    views            results that show the memory of an argument
    history          what a recorded call does to the history of what it made or wrote
    rebase           writing to a view changes its base; view_errors: why one may not be written

Source   torch/csrc/autograd/variable.h
"""
