// The report as JSON; Python adds file names, lines and sentences.
#include "json.h"
#include "module.h"
#include "trace.h"

namespace cuemu {

std::string Tracer::report(const std::string& failure, const std::string& printed) {
    Json json;
    json.begin('{');
    json.field("events", event_count_);
    json.field("blocks_traced", blocks_traced_);
    json.field("truncated", static_cast<uint64_t>(truncated_));
    json.field("races_unchecked", static_cast<uint64_t>(shadow_.full()));
    json.raw("failure", failure);
    json.field("printed", printed);
    json.begin("shared_names", '[');
    for (const std::string& name : shared_names_) json.value(name);
    json.end(']');
    json.begin("variable_names", '[');
    for (const std::string& name : variable_names_) json.value(name);
    json.end(']');
    json.begin("sites", '[');
    for (const Site& s : sites_) {
        json.begin('[');
        for (const uint64_t n : {s.pc, static_cast<uint64_t>(s.access), static_cast<uint64_t>(s.space),
                                 static_cast<uint64_t>(s.size), s.requests, s.lanes, s.sectors, s.ideal_sectors,
                                 s.wavefronts, s.ideal_wavefronts, s.same_address}) {
            json.value(n);
        }
        json.end(']');
    }
    json.end(']');
    json.begin("runs", '[');
    for (const auto& [pc, run] : runs_) {
        json.begin('[');
        json.value(pc), json.value(run.runs), json.value(run.lanes);
        json.end(']');
    }
    json.end(']');
    json.begin("requests", '[');
    for (const RawRequest& r : requests_) {
        const Site& site = sites_[r.site];
        const auto& extents = site.space == kGlobal ? extents_ : site.space == kShared ? shared_extents_ : variable_extents_;
        int array = -1;
        uint64_t start = 0;
        for (unsigned lane = 0; lane < kWarp && array < 0; ++lane) {
            if (!(r.mask >> lane & 1)) continue;
            for (const Extent& extent : extents) {
                if (r.address[lane] >= extent.low && r.address[lane] < extent.high) array = extent.index, start = extent.low;
            }
        }
        json.begin('{');
        json.field("site", static_cast<uint64_t>(r.site));
        json.field("block", block_index(r.block));
        json.field("warp", static_cast<uint64_t>(r.warp));
        json.field("mask", static_cast<uint64_t>(r.mask));
        json.raw("array", std::to_string(array));
        json.field("start", start);
        json.begin("addresses", '[');
        for (unsigned lane = 0; lane < kWarp; ++lane) json.value(r.address[lane]);
        json.end(']');
        json.end('}');
    }
    json.end(']');
    json.begin("findings", '[');
    for (const Finding& f : findings_) {
        json.begin('{');
        json.field("kind", f.kind);
        json.field("message", f.message);
        json.field("pc", f.pc);
        json.field("other_pc", f.other_pc);
        json.field("block", f.block);
        json.field("thread", f.thread);
        if (f.has_other) json.field("other_block", f.other_block), json.field("other_thread", f.other_thread);
        json.field("address", f.address);
        json.field("size", static_cast<uint64_t>(f.size));
        json.field("access", static_cast<uint64_t>(f.access));
        json.field("other_access", static_cast<uint64_t>(f.other_access));
        json.field("space", static_cast<uint64_t>(f.space));
        json.raw("array", std::to_string(f.array));
        json.raw("offset", std::to_string(f.offset));
        json.field("array_size", f.array_size);
        json.field("count", f.count);
        if (!f.details.empty()) json.raw("waiting", f.details);
        json.end('}');
    }
    json.end(']');
    json.begin("log", '[');
    for (const LogEntry& entry : log_) {
        json.begin('[');
        for (const uint64_t n : {entry.pc, static_cast<uint64_t>(entry.access), static_cast<uint64_t>(entry.block),
                                 static_cast<uint64_t>(entry.thread), entry.address, static_cast<uint64_t>(entry.size),
                                 entry.before, entry.after, static_cast<uint64_t>(entry.stale)}) {
            json.value(n);
        }
        json.end(']');
    }
    json.end(']');
    json.end('}');
    return json.text;
}

}  // namespace cuemu
