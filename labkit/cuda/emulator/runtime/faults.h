// A fault or a hang inside a kernel becomes a report on the wire; then this process ends.
#pragma once

namespace cuemu {

void use_fault_stack();      // per OS thread
void install_fault_handlers(int wire_fd);
void watch_parent(int wire_fd);  // ends this process with its parent, and reports hangs on SIGUSR1

}  // namespace cuemu
