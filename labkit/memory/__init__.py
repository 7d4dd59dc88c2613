"""The caching allocator of a CUDA device, what it records, and what can be made of that.

    caching_allocator   malloc and free, step by step: read this first
    sizes               what a request is rounded to, and what the device is asked for
    block               blocks, the segments they are cut from, and the pools they wait in
    best_fit            which free block serves a request
    device              what is asked of a device; reserved: what it has given
    expandable          segments that grow; expandable_segment: the pages of one
    release             what goes back to the device, and in which order
    stream_events       blocks that other streams still use; robin_hood: the order of the streams
    private_pools       the pools of graphs and MemPool; mem_pool: one for a `with`
    callbacks           functions to be called when memory runs out; out_of_memory: the error
    settings            PYTORCH_ALLOC_CONF, cut by settings_tokens
    statistics          torch.cuda.memory_stats
    recorder            is told what happens, and tells history: the trace, decisions: the reasons
    memory_map          segments, blocks and trace as a snapshot holds them
    snapshots, replay   snapshots read and explained; their traces made again
    storages            who gets memory from the allocator
    host_allocator      pinned memory, by an allocator of its own

Source   c10/cuda/CUDACachingAllocator.cpp
"""
