#include "heap.h"

#include <stddef.h>
#include <stdlib.h>

#include <map>
#include <mutex>
#include <vector>

namespace cuemu {

namespace {
constexpr size_t kGap = 64;  // bytes behind each piece that belong to none

struct Piece {
    uint64_t size;
    bool freed;
};

std::mutex guard;
bool keeps = false;
std::vector<void*> kept;

std::map<uint64_t, Piece>& pieces() {
    static auto* all = new std::map<uint64_t, Piece>;  // a module's end may free after ours
    return *all;
}

void* taken(size_t size) {
    void* piece = malloc(size + kGap);
    if (!piece) return nullptr;
    const auto start = reinterpret_cast<uint64_t>(piece);
    const std::lock_guard<std::mutex> held(guard);
    // what was freed there before is forgotten
    pieces().erase(pieces().lower_bound(start), pieces().lower_bound(start + size + kGap));
    pieces()[start] = {size, false};
    return piece;
}

void given_back(void* piece) {
    {
        const std::lock_guard<std::mutex> held(guard);
        const auto found = pieces().find(reinterpret_cast<uint64_t>(piece));
        if (found != pieces().end() && !found->second.freed) {
            found->second.freed = true;
            if (keeps) {
                kept.push_back(piece);
                return;
            }
        }
    }
    free(piece);
}

// The piece that begins last at or before the address, if it or its gap reaches there.
const std::pair<const uint64_t, Piece>* piece_at(uint64_t address) {
    auto after = pieces().upper_bound(address);
    if (after == pieces().begin()) return nullptr;
    const auto& piece = *--after;
    return address < piece.first + piece.second.size + kGap ? &piece : nullptr;
}
}  // namespace

bool heap_holds(uint64_t address, unsigned size) {
    const std::lock_guard<std::mutex> held(guard);
    const auto* piece = piece_at(address);
    return piece && !piece->second.freed && address + size <= piece->first + piece->second.size;
}

bool heap_knows(uint64_t address) {
    const std::lock_guard<std::mutex> held(guard);
    return piece_at(address);
}

std::string heap_about(uint64_t address, unsigned size) {
    const std::lock_guard<std::mutex> held(guard);
    const auto* piece = piece_at(address);
    if (!piece) return "";
    const auto& [start, about] = *piece;
    const std::string first = std::to_string(address - start), last = std::to_string(address - start + size - 1);
    const std::string whole = std::to_string(about.size) + " bytes that a thread allocated";
    return "bytes " + first + " to " + last + " of " + whole + (about.freed ? " and that were freed" : "");
}

void heap_keeps(bool freed) {
    const std::lock_guard<std::mutex> held(guard);
    keeps = freed;
    if (freed) return;
    for (void* piece : kept) free(piece);
    kept.clear();
}

}  // namespace cuemu

// The linker gives a module these in place of malloc, free, and the operators new and delete.
extern "C" {
void* __wrap_malloc(size_t size) { return cuemu::taken(size); }
void __wrap_free(void* piece) { cuemu::given_back(piece); }
void* __wrap__Znwm(size_t) __attribute__((alias("__wrap_malloc")));
void* __wrap__Znam(size_t) __attribute__((alias("__wrap_malloc")));
void __wrap__ZdlPv(void*) __attribute__((alias("__wrap_free")));
void __wrap__ZdaPv(void*) __attribute__((alias("__wrap_free")));
void __wrap__ZdlPvm(void* piece, size_t) { cuemu::given_back(piece); }
void __wrap__ZdaPvm(void* piece, size_t) { cuemu::given_back(piece); }
}
