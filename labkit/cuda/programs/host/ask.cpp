#include "ask.h"
#include "../../emulator/include/cuemu/abi.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" char __executable_start, etext;  // the linker's: the program's code

namespace cuemu {

namespace {

struct Question {  // then `size` bytes; labkit/cuda/programs/wire.py has the same
    char name[48];
    uint64_t site;
    int64_t numbers[9];
    uint64_t size;
};
struct Reply {  // or a function to call; then `printed` and `size` bytes
    uint32_t error, unused;
    int64_t values[4];
    uint64_t printed, size;
};

int wire = -1, calls = -1;
char *base, *mapped;
size_t reserved, capacity;
pthread_mutex_t turn = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

[[noreturn]] void leave(const char* why) {
    fprintf(stderr, "%s\n", why);
    _exit(125);
}

void write_all(const void* from, size_t size) {
    const char* at = static_cast<const char*>(from);
    while (size) {
        const ssize_t put = write(wire, at, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) _exit(125);  // labkit has gone
        at += put, size -= static_cast<size_t>(put);
    }
}

void read_all(int from, void* to, size_t size) {
    char* at = static_cast<char*>(to);
    while (size) {
        const ssize_t got = read(from, at, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(125);
        at += got, size -= static_cast<size_t>(got);
    }
}

void show_printed(int from, const Reply& reply) {
    std::string printed(reply.printed, 0);
    read_all(from, &printed[0], printed.size());
    if (!printed.empty()) fwrite(printed.data(), 1, printed.size(), stdout);
}

// Host functions are called by a thread of their own, as a driver does, whatever the others wait for.
void* call_host_functions(void*) {
    for (;;) {
        Reply call;
        read_all(calls, &call, sizeof(call));
        show_printed(calls, call);
        const auto function = reinterpret_cast<cudaHostFn_t>(call.values[0]);
        const auto callback = reinterpret_cast<cudaStreamCallback_t>(call.values[0]);
        void* const argument = reinterpret_cast<void*>(call.values[1]);
        if (call.values[2]) {
            callback(reinterpret_cast<cudaStream_t>(call.values[3]), cudaSuccess, argument);
        } else {
            function(argument);
        }
        const char done = 1;
        if (write(calls, &done, 1) != 1) _exit(125);
    }
}

void put_question(const char* name, const void* site, std::initializer_list<int64_t> numbers, const void* data, size_t size) {
    Question question{};
    strncpy(question.name, name, sizeof(question.name) - 1);
    question.site = offset_of(site);
    int i = 0;
    for (const int64_t number : numbers) question.numbers[i++] = number;
    question.size = size;
    write_all(&question, sizeof(question));
    if (size) write_all(data, size);
}

// Host code touched device memory: labkit is told where, and the program ends as on a GPU.
void on_fault(int signal, siginfo_t* info, void* context) {
    const char* address = static_cast<const char*>(info->si_addr);
    const auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    const auto pc = reinterpret_cast<const char*>(machine->gregs[REG_RIP]);
    const bool writes = machine->gregs[REG_ERR] & 2;
#else
    const auto pc = reinterpret_cast<const char*>(machine->pc);
    const bool writes = false;
#endif
    if (signal == SIGSEGV && address >= base && address < base + reserved) {
        const auto in_program = [](const char* code) { return code > &__executable_start && code < &etext; };
        const char* place = pc + 1;
#if defined(__x86_64__)
        const auto* words = reinterpret_cast<const char* const*>(machine->gregs[REG_RSP]);
#else
        const auto* words = reinterpret_cast<const char* const*>(machine->sp);
#endif
        // In a library, such as memcpy: the first return address into the program says who called.
        for (int i = 0; i < 256 && !in_program(place); ++i) place = words[i];
        put_question("host_fault", place, {number(address), writes}, nullptr, 0);
        Reply reply;
        read_all(wire, &reply, sizeof(reply));
    }
    ::signal(signal, SIG_DFL);  // the access is repeated, and ends the program
}

__attribute__((constructor(101))) void open_device() {
    const char* told = getenv("LABKIT_PROGRAM");
    unsigned long long fields[6];
    if (!told || sscanf(told, "%llu %llu %llu %llx %llu %llu", &fields[0], &fields[1], &fields[2], &fields[3],
                         &fields[4], &fields[5]) != 6) {
        leave("this program was compiled for labkit: start it with `labkit run`");
    }
    wire = static_cast<int>(fields[0]);
    calls = static_cast<int>(fields[1]);
    const int memory = static_cast<int>(fields[2]);
    base = reinterpret_cast<char*>(fields[3]);
    reserved = fields[4], capacity = fields[5];
    const int nothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    if (mmap(base, reserved, PROT_NONE, nothing, -1, 0) != base) leave("labkit: no room for device memory");
    mapped = static_cast<char*>(mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
    if (mapped == MAP_FAILED) leave("labkit: device memory cannot be mapped");
    unsetenv("LABKIT_PROGRAM");
    static char stack[64 * 1024];
    stack_t other{};
    other.ss_sp = stack, other.ss_size = sizeof(stack);
    sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace

uint64_t offset_of(const void* place) {
    return static_cast<uint64_t>(static_cast<const char*>(place) - &__executable_start);
}

char* window(const void* device) {
    const auto* address = static_cast<const char*>(device);
    return address >= base && address < base + capacity ? mapped + (address - base) : nullptr;
}

Answer ask(const char* name, const void* site, std::initializer_list<int64_t> numbers, const void* data, size_t size) {
    pthread_mutex_lock(&turn);
    put_question(name, site, numbers, data, size);
    Answer answer;
    Reply reply;
    read_all(wire, &reply, sizeof(reply));
    show_printed(wire, reply);
    answer.error = static_cast<cudaError_t>(reply.error);
    memcpy(answer.values, reply.values, sizeof(answer.values));
    answer.data.resize(reply.size);
    read_all(wire, &answer.data[0], reply.size);
    pthread_mutex_unlock(&turn);
    return answer;
}

void expect_calls() {
    static pthread_t caller;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, [] { pthread_create(&caller, nullptr, call_host_functions, nullptr); });
}

}  // namespace cuemu

// The memory file at an address of the device: pinned and managed memory, which both sides reach.
extern "C" void cuemu_share(int64_t address, int64_t size) {
    char* const place = reinterpret_cast<char*>(address);
    mremap(cuemu::window(place), 0, static_cast<size_t>(size), MREMAP_MAYMOVE | MREMAP_FIXED, place);
}
extern "C" void cuemu_unshare(int64_t address, int64_t size) {
    mmap(reinterpret_cast<void*>(address), static_cast<size_t>(size), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}
