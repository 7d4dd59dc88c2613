#include "faults.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "executor.h"
#include "module.h"
#include "pool.h"
#include "trace.h"
#include "wire.h"

namespace cuemu {

namespace {

int last_words = -1;  // the wire, for a worker that dies
std::atomic<bool> reported{false};
constexpr int kAskedInVain = 10;  // then the report comes without a place

const char* program_counter(void* context) {
    const auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return reinterpret_cast<const char*>(machine->gregs[REG_RIP]);
#else
    return reinterpret_cast<const char*>(machine->pc);
#endif
}

const char* stack_pointer(void* context) {
    const auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return reinterpret_cast<const char*>(machine->gregs[REG_RSP]);
#else
    return reinterpret_cast<const char*>(machine->sp);
#endif
}

// The module whose kernel this thread runs, or null.
const Module* running() { return executor && executor->launch ? executor->launch->module : nullptr; }

// The first address on the way out that lies in the kernel's own code.
const char* site_in_module(void* context) {
    if (!running()) return nullptr;
    const Module& module = *running();
    const char* pc = program_counter(context);
    if (pc >= module.base && pc < module.image_end) return pc + 1;
    if (Tracer::active && Tracer::active->last_site()) return static_cast<const char*>(Tracer::active->last_site());
    const auto* words = reinterpret_cast<const char* const*>(stack_pointer(context));
    for (int i = 0; i < 64; ++i) {
        if (words[i] >= module.base && words[i] < module.image_end) return words[i];
    }
    return module.base + 1;
}

void send_and_leave(const char* kind, const char* message, const void* address, const void* site) {
    if (reported.exchange(true)) pause();  // another OS thread is already reporting
    char text[1024];
    const uint3 block = cuemu_state.block_idx, thread = cuemu_state.thread_idx;
    const int length = snprintf(
        text, sizeof(text),
        "{\"kind\":\"%s\",\"message\":\"%s\",\"address\":%llu,\"block\":[%u,%u,%u],"
        "\"thread\":[%u,%u,%u],\"sites\":[%llu]}",
        kind, message, static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)), block.x, block.y,
        block.z, thread.x, thread.y, thread.z,
        static_cast<unsigned long long>(site ? running()->offset(site) : 0));
    send_message(last_words, Status::kDied, text, static_cast<size_t>(length));
    _exit(3);
}

// The least int divided by -1 does not fit: x86 faults where a GPU gives the number back. True once
// the machine's registers hold what a GPU's would, and the program goes on behind the division.
bool divided_as_on_a_gpu([[maybe_unused]] void* context) {
#if defined(__x86_64__)
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    static constexpr int kNumbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
    const uint8_t rex = (*code & 0xf0) == 0x40 ? *code++ : 0;
    constexpr uint8_t kDivide = 0xf7, kSigned = 7;
    const uint8_t mode = code[1] >> 6, operation = code[1] >> 3 & 7, number = code[1] & 7;
    if (code[0] != kDivide || operation != kSigned) return false;
    const bool wide = rex & 8;
    int64_t divisor;
    size_t length = 2;
    if (mode == 3) {
        divisor = registers[kNumbered[number | (rex & 1) << 3]];
    } else {  // in memory: [register + displacement], with an index byte behind rsp and r12
        if (mode == 0 && number == 5) return false;  // relative to the code: a constant, never -1
        uint64_t address = static_cast<uint64_t>(registers[kNumbered[number | (rex & 1) << 3]]);
        if (number == 4) {
            if ((code[2] >> 3 & 7) != 4 || rex & 2) return false;
            ++length;
        }
        if (mode == 1) address += static_cast<uint64_t>(static_cast<int8_t>(code[length]));
        if (mode == 2) {
            int32_t displacement;
            memcpy(&displacement, code + length, sizeof(displacement));
            address += static_cast<uint64_t>(static_cast<int64_t>(displacement));
        }
        length += mode == 1 ? 1 : mode == 2 ? 4 : 0;
        memcpy(&divisor, reinterpret_cast<const void*>(address), wide ? 8 : 4);
    }
    if ((wide ? divisor : static_cast<int32_t>(divisor)) != -1) return false;
    registers[REG_RDX] = 0;  // the remainder; the quotient is the dividend, in RAX already
    registers[REG_RIP] = reinterpret_cast<greg_t>(code + length);
    return true;
#else
    return false;  // arm64 gives what a GPU gives
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (signal == SIGFPE && divided_as_on_a_gpu(context)) return;
    const char* address = static_cast<const char*>(info->si_addr);
    const char* sp = stack_pointer(context);
    const char* kind = "fault";
    const char* message = "the kernel touched memory that does not exist";
    if (signal == SIGFPE) {
        kind = "arithmetic", message = "an integer was divided by zero";
    } else if (signal == SIGABRT) {
        kind = "abort", message = "the kernel called abort()";
    } else if (signal == SIGILL || signal == SIGTRAP) {
        kind = "trap", message = "the kernel reached code that cannot run";
    } else if (address && address > sp - 65536 && address < sp + 65536) {
        kind = "stack", message = "a thread needs more than 256 KiB of local memory";
    } else if (signal == SIGBUS) {
        message = "the memory behind this address could not be provided";
    } else if (info->si_code == SI_KERNEL) {
        kind = "misaligned", message = "an address is misaligned for its access, or beyond anything a pointer can hold";
    }
    const bool touched = signal == SIGSEGV || signal == SIGBUS;
    send_and_leave(kind, message, touched ? address : nullptr, site_in_module(context));
}

void on_interrupt(int, siginfo_t*, void* context) {
    static std::atomic<int> in_vain{0};
    if (!executor || !executor->launch) return;
    const char* site = site_in_module(context);
    if (site == running()->base + 1 && ++in_vain < kAskedInVain) return;  // between two blocks: asked again
    send_and_leave("timeout", "the kernel was still running when its time was up", nullptr, site);
}

}  // namespace

// A second worker on the same wire would answer for the first, so a kernel gets none.
extern "C" pid_t fork() {
    const void* caller = running() ? __builtin_return_address(0) : nullptr;
    send_and_leave("fork", "the kernel called fork(), and can start no process", nullptr, caller);
    return -1;
}

extern "C" pid_t vfork() __attribute__((alias("fork")));

void use_fault_stack() {
    constexpr size_t kBytes = 64 * 1024;
    stack_t stack{};
    stack.ss_sp = malloc(kBytes);
    stack.ss_size = kBytes;
    sigaltstack(&stack, nullptr);
}

void install_fault_handlers(int wire_fd) {
    last_words = wire_fd;
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(signal, &action, nullptr);
    action.sa_sigaction = on_interrupt;
    sigaction(SIGUSR2, &action, nullptr);
    fcntl(last_words, F_SETFD, FD_CLOEXEC);  // what a kernel starts by system() gets no end of it
    signal(SIGINT, SIG_IGN);  // Ctrl-C is Python's to handle
    signal(SIGPIPE, SIG_IGN);
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &asked, nullptr);  // taken by the watching thread alone
}

void watch_parent(int wire_fd) {
    std::thread([wire_fd] {
        sigset_t asked;
        sigemptyset(&asked);
        sigaddset(&asked, SIGUSR1);
        for (;;) {
            pollfd watched{wire_fd, 0, 0};  // asks for nothing: only a hang-up wakes it
            poll(&watched, 1, 50);
            if (watched.revents & (POLLHUP | POLLERR | POLLNVAL)) _exit(0);
            const timespec now{};
            if (sigtimedwait(&asked, nullptr, &now) == SIGUSR1) interrupt_all();
        }
    }).detach();
}

}  // namespace cuemu
