// Spreads the blocks of a launch over OS threads.
#pragma once
#include "executor.h"

namespace cuemu {

void start_pool(unsigned os_threads);
void run_blocks(Launch& launch);   // returns when every block has run or one failed
void run_at_once(Launch& launch);  // the same, for blocks that wait for one another
std::string take_printed();
void interrupt_all();  // each busy OS thread reports where it is (see faults.cpp)

}  // namespace cuemu
