// Messages between Python and the worker: a fixed header, then bytes.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>

namespace cuemu {

enum class Command : uint32_t { kPing, kLoad, kUnload, kLaunch, kMap, kUnmap, kRead, kWrite, kTrace, kTwin, kDefine };
enum class Status : uint32_t { kOk, kFailed, kDied };

struct Header {
    uint32_t code;  // a Command one way, a Status the other
    uint32_t length;
};

bool receive_message(int fd, Header& header, std::string& body);
void send_message(int fd, Status status, const char* body, size_t length);

}  // namespace cuemu
