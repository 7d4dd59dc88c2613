// What threads of a kernel got from malloc and new: pieces of the worker's own heap, which live until
// a later launch gives them back. A trace asks whether an access stays inside one.
#pragma once
#include <stdint.h>

#include <string>

namespace cuemu {

bool heap_holds(uint64_t address, unsigned size);
bool heap_knows(uint64_t address);  // of a piece, of the gap behind it, or of one that was freed
// What is wrong with an access that no piece holds; empty where none is near.
std::string heap_about(uint64_t address, unsigned size);
// While a launch is watched, what it frees is kept: then no other thread gets the same memory.
void heap_keeps(bool freed);

}  // namespace cuemu
