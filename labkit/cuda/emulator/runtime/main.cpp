// The worker process: loads compiled .cu files and runs their kernels on memory it shares with
// Python. It may crash or be killed at any time; the memory outlives it.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <unordered_map>

#include "faults.h"
#include "heap.h"
#include "json.h"
#include "module.h"
#include "pool.h"
#include "trace.h"
#include "wire.h"

namespace cuemu {

namespace {

struct LaunchMessage {
    uint64_t module;
    uint32_t kernel, how;  // bit 0: a plain loop is allowed; bit 1: cooperative
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, order;
    uint64_t seed;
    uint32_t arg_count, arg_bytes;
    // then arg_count uint32 offsets, then arg_bytes of values, then a TraceRequest
};
struct MapMessage {
    uint64_t address, size, offset;
};

int wire = -1, memory = -1;

void answer(Status status, const std::string& body) { send_message(wire, status, body.data(), body.size()); }

std::string failure_json(const Launch& launch) {
    const Failure& failure = launch.failure;
    Json json;
    json.begin('{');
    json.field("kind", failure.kind);
    json.field("message", failure.message);
    json.field("block", failure.block);
    json.field("thread", failure.thread);
    json.begin("sites", '[');
    for (const void* site : failure.sites) json.value(launch.module->offset(site));
    json.end(']');
    if (!failure.details.empty()) json.raw("waiting", failure.details);
    json.field("printed", take_printed());
    json.end('}');
    return json.text;
}

void run_launch(const std::string& body, bool traced) {
    const auto* message = reinterpret_cast<const LaunchMessage*>(body.data());
    Launch launch;
    launch.module = reinterpret_cast<Module*>(message->module);
    launch.kernel = &launch.module->kernels[message->kernel];
    launch.grid = {message->grid[0], message->grid[1], message->grid[2]};
    launch.block = {message->block[0], message->block[1], message->block[2]};
    launch.shared_bytes = message->shared_bytes;
    launch.order = static_cast<Order>(message->order);
    launch.seed = message->seed;
    launch.block_count = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
    const auto* offsets = reinterpret_cast<const uint32_t*>(message + 1);
    const char* values = reinterpret_cast<const char*>(offsets + message->arg_count);
    alignas(64) static char parameters[32768];  // MOST_PARAMETER_BYTES of labkit/cuda/emulator/launching.py fit
    memcpy(parameters, values, message->arg_bytes);
    std::vector<void*> args(message->arg_count + 1);
    for (uint32_t i = 0; i < message->arg_count; ++i) args[i] = parameters + offsets[i];
    args[message->arg_count] = const_cast<void*>(launch.kernel->symbol);  // a program's thunk asks for it
    launch.args = args.data();
    launch.parameters_low = reinterpret_cast<uint64_t>(parameters);
    launch.parameters_high = launch.parameters_low + message->arg_bytes;
    launch.cooperative = message->how & 2;
    launch.plain = !traced && (message->how & 1) && !launch.module->can_block &&
                   launch.order == Order::kForward;
    if (traced) {
        Tracer tracer(launch, values + message->arg_bytes);
        launch.tracer = &tracer;
        Tracer::active = &tracer;
        heap_keeps(true);
        run_blocks(launch);
        Tracer::active = nullptr;
        heap_keeps(false);
        executor->launch = nullptr;
        std::string report = tracer.report(launch.failed ? failure_json(launch) : "null", take_printed());
        answer(Status::kOk, report);
        return;
    }
    launch.tracer = nullptr;
    launch.cooperative ? run_at_once(launch) : run_blocks(launch);
    executor->launch = nullptr;
    if (launch.failed) {
        answer(Status::kFailed, failure_json(launch));
    } else {
        answer(Status::kOk, take_printed());
    }
}

void map_memory(const MapMessage& request) {
    void* got = mmap(reinterpret_cast<void*>(request.address), request.size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, memory, static_cast<off_t>(request.offset));
    answer(got == MAP_FAILED ? Status::kFailed : Status::kOk, "");
}

void unmap_memory(const MapMessage& request) {
    // The range stays reserved: nothing of the worker's own may land there.
    mmap(reinterpret_cast<void*>(request.address), request.size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    answer(Status::kOk, "");
}

void serve() {
    Header header{};
    std::string body;
    while (receive_message(wire, header, body)) {
        switch (static_cast<Command>(header.code)) {
            case Command::kPing: answer(Status::kOk, ""); break;
            case Command::kLoad: {
                std::string error;
                const bool program = body.size() > strlen(body.c_str()) + 1;  // a byte behind the path says so
                Module* module = load_module(body.c_str(), program, error);
                if (!module) {
                    answer(Status::kFailed, error);
                    break;
                }
                const auto handle = reinterpret_cast<uint64_t>(module);
                answer(Status::kOk, std::string(reinterpret_cast<const char*>(&handle), 8) + module->describe());
                break;
            }
            case Command::kUnload:
                unload_module(*reinterpret_cast<Module* const*>(body.data()));
                answer(Status::kOk, "");
                break;
            case Command::kLaunch: run_launch(body, false); break;
            case Command::kTrace: run_launch(body, true); break;
            case Command::kMap: map_memory(*reinterpret_cast<const MapMessage*>(body.data())); break;
            case Command::kUnmap: unmap_memory(*reinterpret_cast<const MapMessage*>(body.data())); break;
            case Command::kRead: {
                const auto* request = reinterpret_cast<const MapMessage*>(body.data());
                answer(Status::kOk, std::string(reinterpret_cast<const char*>(request->address), request->size));
                break;
            }
            case Command::kTwin: {
                const auto* modules = reinterpret_cast<Module* const*>(body.data());
                copy_variables(*modules[0], *modules[1]);
                answer(Status::kOk, "");
                break;
            }
            case Command::kDefine: {
                auto* module = *reinterpret_cast<Module* const*>(body.data());
                const std::string kernel = body.data() + sizeof(module);
                const std::string thunk = body.data() + sizeof(module) + kernel.size() + 1;
                uint32_t index;
                if (module->define(kernel, thunk, index)) {
                    answer(Status::kOk, std::string(reinterpret_cast<const char*>(&index), 4) + module->describe_kernel(index));
                } else {
                    answer(Status::kFailed, "the build has no " + kernel);
                }
                break;
            }
            case Command::kWrite: {
                const auto* request = reinterpret_cast<const MapMessage*>(body.data());
                memcpy(reinterpret_cast<void*>(request->address), request + 1, request->size);
                answer(Status::kOk, "");
                break;
            }
        }
    }
}

}  // namespace

}  // namespace cuemu

// Arguments: the wire's descriptor, the memory's descriptor, first address, bytes reserved, bytes
// of it that the arena maps from the start, OS threads.
int main(int argc, char** argv) {
    if (argc != 7) return 2;
    cuemu::wire = atoi(argv[1]);
    cuemu::memory = atoi(argv[2]);
    void* address = reinterpret_cast<void*>(strtoull(argv[3], nullptr, 0));
    const size_t reserved = strtoull(argv[4], nullptr, 0), arena = strtoull(argv[5], nullptr, 0);
    const int both = PROT_READ | PROT_WRITE, mine = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(address, reserved, PROT_NONE, mine | MAP_FIXED_NOREPLACE, -1, 0) != address) return 5;
    if (mmap(address, arena, both, MAP_SHARED | MAP_FIXED, cuemu::memory, 0) != address) return 5;
    // As on a GPU, a program's first array is not the first thing in memory.
    constexpr size_t kBefore = 2u << 20;
    void* const low = static_cast<char*>(address) - kBefore;
    if (mmap(low, kBefore, both, mine | MAP_FIXED_NOREPLACE, -1, 0) != low) return 5;
    cuemu::device_low = reinterpret_cast<uint64_t>(low);
    cuemu::device_high = reinterpret_cast<uint64_t>(address) + reserved;
    cuemu::device_mapped_high = reinterpret_cast<uint64_t>(address) + arena;
    cuemu::install_fault_handlers(cuemu::wire);
    cuemu::start_pool(static_cast<unsigned>(atoi(argv[6])));
    cuemu::watch_parent(cuemu::wire);
    cuemu::serve();
    _exit(0);
}
