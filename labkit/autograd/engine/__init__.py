"""The engine: gradients from the roots to the leaves, every node once, in PyTorch's order.

    engine          what `backward` and `grad` call
    graph_task      one backward call, step by step: read this first
    ready_queue     which of the nodes that can run is next
    exec_info       which nodes have to run when only some gradients are wanted
    validate        a gradient fits the input it goes to
    input_buffer    gradients that come to one place are added
    hook_results    what a hook may return

Source   torch/csrc/autograd/engine.cpp
"""
