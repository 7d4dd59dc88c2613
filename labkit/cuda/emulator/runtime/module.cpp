#include "module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "json.h"

namespace cuemu {

namespace {

std::string demangled(const char* name) {
    if (strncmp(name, "_Z", 2) != 0) return name;  // "c" alone would be the type char
    int status = 0;
    char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string result = status == 0 ? text : name;
    free(text);
    return result;
}

// "void add<float>(float*)::tile" -> variable "tile" of "void add<float>(float*)"
Symbol split(const std::string& full, int64_t offset, size_t size) {
    int depth = 0;
    for (size_t i = full.size(); i-- > 1;) {
        if (full[i] == ')' || full[i] == '>') ++depth;
        if (full[i] == '(' || full[i] == '<') --depth;
        if (depth == 0 && full[i] == ':' && full[i - 1] == ':') {
            return {full.substr(i + 1), full.substr(0, i - 1), offset, size};
        }
    }
    return {full, "", offset, size};
}

void read_symbols(Module& module, const char* file, bool program) {
    const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file);
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file + header->e_shoff);
    const char* section_names = file + sections[header->e_shstrndx].sh_offset;
    int64_t anchor = 0;
    std::vector<Symbol> tls;
    for (int s = 0; s < header->e_shnum; ++s) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[s].sh_offset);
        const char* names = file + sections[sections[s].sh_link].sh_offset;
        std::string source;  // of the local symbols that follow
        for (size_t i = 0; i < sections[s].sh_size / sizeof(ElfW(Sym)); ++i) {
            const auto& symbol = symbols[i];
            const char* name = names + symbol.st_name;
            const int type = ELF64_ST_TYPE(symbol.st_info);
            const auto value = static_cast<int64_t>(symbol.st_value);
            if (type == STT_FILE) source = name;
            const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
            const std::string linked = local ? source + ":" + name : name;
            if (program && symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_OBJECT)) {
                module.symbols.emplace(linked, value);
            }
            if (symbol.st_shndx == SHN_UNDEF) {
                if (strncmp(name, "cuemu_block_", 12) == 0) module.can_block = true;
            } else if (type == STT_TLS && strcmp(name, "cuemu_shared_anchor") == 0) {
                anchor = value;
            } else if (type == STT_TLS) {
                tls.push_back(split(demangled(name), value, symbol.st_size));
            } else if (type == STT_OBJECT && symbol.st_size && strncmp(name, "cuemu_", 6) != 0 &&
                       strncmp(name, "_ZN5cuemu", 9) != 0 && name[0] != '.' &&
                       (sections[symbol.st_shndx].sh_flags & SHF_ALLOC)) {
                module.globals.push_back(split(demangled(name), value, symbol.st_size));
                module.globals.back().linked = linked;
                const std::string section = section_names + sections[symbol.st_shndx].sh_name;
                module.globals.back().writable = section == ".data" || section == ".bss";  // no more after relocation
            }
        }
    }
    for (Symbol& symbol : tls) {
        symbol.offset -= anchor;
        if (symbol.name == "cuemu_dynamic_shared") {
            module.dynamic_offset = symbol.offset;
            module.dynamic_capacity = symbol.size;
        }
    }
    bool any = false;
    for (Symbol& symbol : tls) {
        if (symbol.name == "cuemu_dynamic_shared") continue;
        if (symbol.owner.rfind("guard variable for ", 0) == 0) {
            module.guards.push_back(symbol);
            continue;
        }
        if (module.dynamic_capacity && symbol.offset == module.dynamic_offset) {
            module.dynamic_names.push_back(symbol.name);
            continue;
        }
        const auto end = symbol.offset + static_cast<int64_t>(symbol.size);
        module.shared_low = any ? std::min(module.shared_low, symbol.offset) : symbol.offset;
        module.shared_high = any ? std::max(module.shared_high, end) : end;
        any = true;
        module.shared.push_back(symbol);
    }
}

}  // namespace

void Module::poison_shared(uint32_t dynamic_bytes) const {
    if (shared_high == shared_low && !dynamic_bytes) return;
    char* base_here = shared_base();
    // 0xFF: NaN as float, -1 as int. Stale values would hide a missing barrier.
    memset(base_here + shared_low, 0xFF, static_cast<size_t>(shared_high - shared_low));
    if (dynamic_bytes) memset(base_here + dynamic_offset, 0xFF, dynamic_bytes);
}

std::string Module::describe_kernel(uint32_t k) const {
    Json json;
    json.begin('{');
    json.field("name", std::string(kernels[k].name));
    uint64_t shared_bytes = 0;
    const std::string& owner = kernel_functions[k];
    for (const Symbol& variable : shared) {
        if (variable.owner == owner || owner.rfind(variable.owner + "(", 0) == 0) shared_bytes += variable.size;
    }
    json.field("static_shared", shared_bytes);
    json.begin("params", '[');
    for (uint32_t p = 0; p < kernels[k].param_count; ++p) {
        const CuemuParam& param = kernels[k].params[p];
        json.begin('[');
        json.value(param.size), json.value(param.kind), json.value(param.pointee_kind);
        json.value(param.is_const), json.value(param.pointee_size);
        json.end(']');
    }
    json.end(']');
    json.end('}');
    return json.text;
}

bool Module::define(const std::string& kernel, const std::string& thunk_name, uint32_t& index) {
    const auto function = symbols.find(kernel), table = symbols.find(thunk_name);
    if (function == symbols.end() || table == symbols.end()) return false;
    struct Thunk {  // CuemuThunk of cuemu/host/launch.h
        void (*thread)(void**);
        void (*block)(void**);
        const CuemuParam* params;
        uint32_t param_count;
    };
    const auto* thunk = reinterpret_cast<const Thunk*>(base + table->second);
    kernel_functions.push_back(demangled(kernel.c_str() + kernel.rfind(':') + 1));
    kernel_names.push_back(kernel);
    index = static_cast<uint32_t>(kernels.size());
    kernels.push_back({kernel_names.back().c_str(), thunk->thread, thunk->block, thunk->params, thunk->param_count,
                       base + function->second});
    return true;
}

std::string Module::describe() const {
    Json json;
    json.begin('{');
    json.field("can_block", static_cast<uint64_t>(can_block));
    json.field("dynamic_capacity", static_cast<uint64_t>(dynamic_capacity));
    json.begin("kernels", '[');
    for (uint32_t k = 0; k < kernels.size(); ++k) json.raw_value(describe_kernel(k));
    json.end(']');
    json.begin("globals", '[');
    for (const Symbol& symbol : globals) {
        if (symbols.empty() && (!symbol.owner.empty() || symbol.name.find('.') != std::string::npos)) continue;
        json.begin('{');
        json.field("name", symbol.name);
        json.field("symbol", symbol.linked);
        json.field("address", reinterpret_cast<uint64_t>(base + symbol.offset));
        json.field("size", static_cast<uint64_t>(symbol.size));
        json.end('}');
    }
    json.end(']');
    json.end('}');
    return json.text;
}

static Module* loading = nullptr;

extern "C" void cuemu_own_arrays(const char* file, const CuemuSubscript* first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) loading->own_subscripts[{file, first[i].line, first[i].column}] = first[i].array;
}

Module* load_module(const char* path, bool program, std::string& error) {
    auto module = std::make_unique<Module>();
    loading = module.get();
    module->handle = dlopen(path, (program ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
    if (!module->handle) {
        error = dlerror();
        return nullptr;
    }
    if (!program) {
        const auto* kernels = static_cast<const CuemuKernel*>(dlsym(module->handle, "cuemu_kernels"));
        const uint32_t count = *static_cast<const uint32_t*>(dlsym(module->handle, "cuemu_kernel_count"));
        module->kernels.assign(kernels, kernels + count);
    }
    module->shared_base_ = reinterpret_cast<void* (*)()>(dlsym(module->handle, "cuemu_shared_base"));
    struct link_map* map = nullptr;
    dlinfo(module->handle, RTLD_DI_LINKMAP, &map);
    module->base = reinterpret_cast<char*>(map->l_addr);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info {};
    fstat(fd, &info);
    void* file = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    const auto* header = static_cast<const ElfW(Ehdr)*>(file);
    const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(static_cast<char*>(file) + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i) {
        if (segments[i].p_type == PT_LOAD) {
            module->image_end = std::max(module->image_end, module->base + segments[i].p_vaddr + segments[i].p_memsz);
        }
    }
    for (const CuemuKernel& kernel : module->kernels) {
        Dl_info symbol{};
        const bool known = dladdr(kernel.symbol, &symbol) && symbol.dli_sname;
        module->kernel_functions.push_back(known ? demangled(symbol.dli_sname) : "");
    }
    read_symbols(*module, static_cast<char*>(file), program);
    munmap(file, static_cast<size_t>(info.st_size));
    return module.release();
}

void copy_variables(const Module& from, const Module& to) {
    for (const Symbol& source : from.globals) {
        for (const Symbol& target : to.globals) {
            const bool same = source.linked == target.linked && source.size == target.size;
            if (same && target.writable) memcpy(to.base + target.offset, from.base + source.offset, source.size);
        }
    }
}

void unload_module(Module* module) {
    dlclose(module->handle);
    delete module;
}

}  // namespace cuemu
