#include "copies.h"

#include <string.h>

#include <algorithm>

#include "executor.h"
#include "trace.h"

namespace cuemu {

void Copies::block_begins() {
    if (!used_) return;
    of_.clear();
    used_ = false;
}

void Copies::ask(uint32_t thread, Copy copy) {
    if (!used_) of_.resize(kMaxThreads);
    used_ = true;
    copy.group = of_[thread].commits;
    of_[thread].copies.push_back(copy);
}

void Copies::commit(uint32_t thread) {
    if (used_) ++of_[thread].commits;
}

void Copies::wait(uint32_t thread, uint32_t groups, bool all) {
    if (!used_) return;
    Waiting& waiting = of_[thread];
    const auto due = [&](const Copy& copy) { return all || copy.group + groups < waiting.commits; };
    while (!waiting.copies.empty() && due(waiting.copies.front())) {
        const Copy copy = waiting.copies.front();
        waiting.copies.erase(waiting.copies.begin());  // first: a copy that faults ends its thread
        make(copy);
    }
}

void make(const Copy& copy) {
    const uint32_t read = copy.size - std::min(copy.zeros, copy.size);
    if (Tracer* tracer = Tracer::active) {
        // The read has a site of its own, one byte back in the same instruction.
        const void* const before = static_cast<const char*>(copy.site) - 1;
        const auto told = [&](const char* at, uint32_t size, Access access, const void* site) {
            const size_t together = size | reinterpret_cast<size_t>(at) | 16;
            const auto width = static_cast<unsigned>(together & -together);
            for (uint32_t i = 0; i < size; i += width) tracer->access(const_cast<char*>(at) + i, width, access, site, i > 0);
        };
        told(copy.from, read, kRead, before);
        told(copy.to, copy.size, kWrite, copy.site);
    }
    memcpy(copy.to, copy.from, read);
    memset(copy.to + read, 0, copy.size - read);
}

}  // namespace cuemu

using cuemu::executor;

extern "C" {

void cuemu_copy(void* to, const void* from, uint32_t size, uint32_t zeros) {
    const cuemu::Copy copy{static_cast<char*>(to), static_cast<const char*>(from), size, zeros, __builtin_return_address(0), 0};
    // In a file without a wait nobody may rely on it at all, and threads run one after another.
    executor->current ? executor->copies.ask(executor->current->index, copy) : make(copy);
}
void cuemu_copy_commit() {
    if (executor->current) executor->copies.commit(executor->current->index);
}
void cuemu_block_copy_wait(uint32_t groups, int all) { executor->copies.wait(executor->current->index, groups, all); }
}
