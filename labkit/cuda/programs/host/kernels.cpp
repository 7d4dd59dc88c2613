// Launches in the form that labkit reads, and the kernels that a program keeps as void*.
#include "kernels.h"

#include <string.h>

#include <map>

namespace cuemu {

namespace {
std::map<const void*, const CuemuThunk*>& known() {  // not a plain variable: static constructors fill it
    static std::map<const void*, const CuemuThunk*> kernels;
    return kernels;
}
void append(std::string& body, uint32_t value) { body.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
}  // namespace

std::string launch_body(const Config& config, const Argument* arguments, unsigned count) {
    std::string body;
    for (const uint32_t size : {config.grid.x, config.grid.y, config.grid.z, config.block.x, config.block.y, config.block.z,
                                static_cast<uint32_t>(config.line), static_cast<uint32_t>(config.cooperative),
                                static_cast<uint32_t>(strlen(config.name)), static_cast<uint32_t>(strlen(config.file)), count}) {
        append(body, size);
    }
    for (unsigned i = 0; i < count; ++i) append(body, static_cast<uint32_t>(arguments[i].size));
    body += config.name;
    body += config.file;
    for (unsigned i = 0; i < count; ++i) body.append(static_cast<const char*>(arguments[i].value), arguments[i].size);
    return body;
}

std::string launch_body(const Config& config, const CuemuThunk& thunk, void** arguments) {
    std::string told;
    Argument* const given = new Argument[thunk.param_count + 1];
    for (uint32_t i = 0; i < thunk.param_count; ++i) given[i] = {arguments[i], thunk.params[i].size};
    told = launch_body(config, given, thunk.param_count);
    delete[] given;
    return told;
}

const CuemuThunk* thunk_of(const void* kernel) {
    const auto found = known().find(kernel);
    return found == known().end() ? nullptr : found->second;
}

static cudaError_t launched(const char* name, const void* site, const void* kernel, const Config& config, void** arguments) {
    const CuemuThunk* thunk = thunk_of(kernel);
    if (!thunk) return noted(cudaErrorInvalidDeviceFunction);
    const std::string body = launch_body(config, *thunk, arguments);
    return tell(name, site, {place(kernel), place(thunk), static_cast<int64_t>(config.shared_bytes), number(config.stream)},
                body.data(), body.size());
}

}  // namespace cuemu

extern "C" {

void* cuemu_known(const void* kernel, const void* thunk) {
    cuemu::known()[kernel] = static_cast<const CuemuThunk*>(thunk);
    return const_cast<void*>(kernel);
}
cudaError_t cuemu_launch_known(const void* kernel, const cuemu::Config* config, void** arguments) {
    return cuemu::launched("cudaLaunchKernel", CUEMU_SITE, kernel, *config, arguments);
}
const void* cuemu_thunk(const void* kernel) { return cuemu::thunk_of(kernel); }

}
