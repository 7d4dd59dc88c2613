#include "pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "faults.h"

namespace cuemu {

namespace {

// Leaked on purpose: destroying a condition variable with parked waiters hangs the exit.
struct Pool {
    std::mutex mutex;
    std::condition_variable work, idle;
    Launch* launch = nullptr;
    unsigned helpers = 0, wanted = 0, busy = 0;
    uint64_t generation = 0;
    std::vector<pthread_t> threads;
    std::string printed;
    uint64_t unprinted = 0;  // bytes beyond the limit
};
Pool* pool = new Pool;
constexpr size_t kPrintedLimit = 1 << 20;  // CUDA's default printf buffer

void collect_printed() {
    if (!executor->printed.empty()) {
        const std::lock_guard<std::mutex> lock(pool->mutex);
        pool->printed += executor->printed;
        pool->unprinted += executor->unprinted;
        executor->printed.clear();
        executor->unprinted = 0;
    }
}

void run_share(Launch& launch) {
    const uint64_t parts = static_cast<uint64_t>(pool->helpers + 1) * 8;
    const uint64_t chunk = launch.block_count / parts + 1;
    while (!launch.failed) {
        const uint64_t first = launch.next_block.fetch_add(chunk);
        if (first >= launch.block_count) break;
        const uint64_t end = first + chunk < launch.block_count ? first + chunk : launch.block_count;
        for (uint64_t b = first; b < end && !launch.failed; ++b) {
            executor->run_block(launch, launch.order == Order::kReverse ? launch.block_count - 1 - b : b);
        }
    }
    collect_printed();
}

void helper() {
    executor = new Executor;
    use_fault_stack();
    uint64_t seen = 0;
    for (;;) {
        Launch* launch;
        {
            std::unique_lock<std::mutex> lock(pool->mutex);
            pool->work.wait(lock, [&] { return pool->generation != seen && pool->wanted > 0; });
            seen = pool->generation;
            --pool->wanted;
            ++pool->busy;
            launch = pool->launch;
        }
        run_share(*launch);
        executor->launch = nullptr;
        const std::lock_guard<std::mutex> lock(pool->mutex);
        if (--pool->busy == 0) pool->idle.notify_one();
    }
}

}  // namespace

void start_pool(unsigned os_threads) {
    executor = new Executor;
    use_fault_stack();
    pool->threads.push_back(pthread_self());
    pool->helpers = os_threads - 1;
    for (unsigned i = 0; i < pool->helpers; ++i) {
        std::thread thread(helper);
        pool->threads.push_back(thread.native_handle());
        thread.detach();
    }
}

void run_blocks(Launch& launch) {
    const uint64_t threads = launch.block_count * launch.block.x * launch.block.y * launch.block.z;
    // Waking a helper costs some 10 us: a small launch, or one whose order matters, stays here.
    const bool share = pool->helpers && !launch.tracer && launch.block_count > 1 &&
                       launch.order == Order::kForward && threads >= (launch.plain ? 32768u : 2048u);
    if (share) {
        const std::lock_guard<std::mutex> lock(pool->mutex);
        pool->launch = &launch;
        pool->wanted = pool->helpers;
        ++pool->generation;
        pool->work.notify_all();
    }
    run_share(launch);
    if (share) {
        std::unique_lock<std::mutex> lock(pool->mutex);
        pool->wanted = 0;  // a helper that never woke is no longer needed
        pool->idle.wait(lock, [] { return pool->busy == 0; });
    }
}

// OS threads that hold one block each, so that blocks can wait for one another.
struct Resident {
    std::mutex mutex;
    std::condition_variable changed;
    Launch* launch = nullptr;
    uint64_t block = 0;
};

struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    uint64_t blocks, waiting = 0, generation = 0;
    std::atomic<bool>& failed;

    void open() {
        waiting = 0;
        ++generation;
        opened.notify_all();
    }
    void pass() {
        std::unique_lock<std::mutex> lock(mutex);
        const uint64_t mine = generation;
        if (++waiting == blocks) return open();
        while (generation == mine && !failed) opened.wait_for(lock, std::chrono::milliseconds(20));
    }
    void leave() {  // a block that has ended is waited for no more
        const std::lock_guard<std::mutex> lock(mutex);
        if (--blocks && waiting == blocks) open();
    }
};

static void reside(Resident& self) {
    executor = new Executor;
    use_fault_stack();
    for (;;) {
        std::unique_lock<std::mutex> lock(self.mutex);
        self.changed.wait(lock, [&] { return self.launch != nullptr; });
        executor->run_block(*self.launch, self.block);
        executor->launch = nullptr;
        collect_printed();
        self.launch->gate->leave();
        self.launch = nullptr;
        self.changed.notify_all();
    }
}

void run_at_once(Launch& launch) {
    static auto* residents = new std::vector<Resident*>;
    Gate gate{{}, {}, launch.block_count, 0, 0, launch.failed};
    launch.gate = &gate;
    while (residents->size() < launch.block_count) {
        residents->push_back(new Resident);
        std::thread thread(reside, std::ref(*residents->back()));
        pool->threads.push_back(thread.native_handle());
        thread.detach();
    }
    for (uint64_t b = 0; b < launch.block_count; ++b) {
        Resident& one = *(*residents)[b];
        const std::lock_guard<std::mutex> lock(one.mutex);
        one.block = b;
        one.launch = &launch;
        one.changed.notify_all();
    }
    for (uint64_t b = 0; b < launch.block_count; ++b) {
        Resident& one = *(*residents)[b];
        std::unique_lock<std::mutex> lock(one.mutex);
        one.changed.wait(lock, [&] { return one.launch == nullptr; });
    }
}

void Executor::grid_barrier(const void* site) {
    if (!launch->gate) {
        fail("grid_sync", "grid.sync() in a grid that was not launched cooperatively", site);
    }
    barrier(CUEMU_SYNC, 0, site);
    if (current->index == 0) launch->gate->pass();
    barrier(CUEMU_SYNC, 0, site);
}

std::string take_printed() {
    std::string text;
    text.swap(pool->printed);
    if (text.size() > kPrintedLimit) {
        pool->unprinted += text.size() - kPrintedLimit;
        text.resize(kPrintedLimit);
    }
    if (pool->unprinted) {
        text += "\n[printf: only the first MiB is shown, " + std::to_string(pool->unprinted) + " bytes are not]\n";
        pool->unprinted = 0;
    }
    return text;
}

void interrupt_all() {
    for (const pthread_t thread : pool->threads) pthread_kill(thread, SIGUSR2);
}

}  // namespace cuemu

using cuemu::executor;

extern "C" {

// Kernels bind to these and not to the C library's, whatever header declared them: the worker's
// symbols come first.
static int print(const std::string& text) {
    if (executor->printed.size() < cuemu::kPrintedLimit) {
        executor->printed += text;
    } else {
        executor->unprinted += text.size();
    }
    return static_cast<int>(text.size());
}

int printf(const char* format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    print(line);
    return length;
}

int puts(const char* text) { return print(std::string(text) + "\n"); }

int print_character(int) __asm__("putchar");  // by its own name <stdio.h> may define it inline
int print_character(int character) { return print(std::string(1, static_cast<char>(character))), character; }

[[noreturn]] void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
    const std::string where = std::string(file) + ":" + std::to_string(line);
    executor->fail("assert", where + ": " + function + ": assertion `" + expression + "` failed",
                   __builtin_return_address(0));
    __builtin_unreachable();
}

[[noreturn]] void cuemu_trap() {
    executor->fail("trap", "__trap() was called", __builtin_return_address(0));
    __builtin_unreachable();
}
}
