// Where the running thread is: one variable to the scheduler, four to a whole program's kernels.
    .section .tbss,"awT",%nobits
    .balign 16
    .globl cuemu_state, threadIdx, blockIdx, blockDim, gridDim
    .type cuemu_state, %tls_object
    .type threadIdx, %tls_object
    .type blockIdx, %tls_object
    .type blockDim, %tls_object
    .type gridDim, %tls_object
    .size cuemu_state, 48
    .size threadIdx, 12
    .size blockIdx, 12
    .size blockDim, 12
    .size gridDim, 12
cuemu_state:
threadIdx: .zero 12
blockIdx: .zero 12
blockDim: .zero 12
gridDim: .zero 12
    .section .note.GNU-stack,"",%progbits
