// Copies to shared memory that threads of the running block have asked for and not waited for yet.
//
// A GPU may make them at any time before the wait. Here they are made at the wait, the latest time
// allowed: who reads too soon reads what was there before.
#pragma once
#include <stdint.h>

#include <vector>

namespace cuemu {

struct Copy {
    char* to;
    const char* from;
    uint32_t size, zeros;
    const void* site;
    uint32_t group;  // how many commits of its thread came before
};

class Copies {
   public:
    void block_begins();
    void ask(uint32_t thread, Copy copy);
    void commit(uint32_t thread);
    void wait(uint32_t thread, uint32_t groups, bool all);

   private:
    struct Waiting {
        std::vector<Copy> copies;
        uint32_t commits = 0;
    };
    std::vector<Waiting> of_;  // by thread
    bool used_ = false;
};

void make(const Copy& copy);

}  // namespace cuemu
