#include "wire.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

namespace cuemu {

namespace {

bool read_all(int fd, char* to, size_t length) {
    while (length) {
        const ssize_t got = read(fd, to, length);
        if (got == 0) return false;
        if (got < 0) {
            if (errno == EINTR) continue;
            return false;
        }
        to += got;
        length -= static_cast<size_t>(got);
    }
    return true;
}

void write_all(int fd, const char* from, size_t length) {
    while (length) {
        const ssize_t put = write(fd, from, length);
        if (put < 0) {
            if (errno == EINTR) continue;
            _exit(1);
        }
        from += put;
        length -= static_cast<size_t>(put);
    }
}

}  // namespace

bool receive_message(int fd, Header& header, std::string& body) {
    if (!read_all(fd, reinterpret_cast<char*>(&header), sizeof(header))) return false;
    body.resize(header.length);
    return read_all(fd, body.data(), header.length);
}

void send_message(int fd, Status status, const char* body, size_t length) {
    const Header header{static_cast<uint32_t>(status), static_cast<uint32_t>(length)};
    if (length <= 256) {  // one system call for the common empty answer
        char together[sizeof(header) + 256];
        __builtin_memcpy(together, &header, sizeof(header));
        if (length) __builtin_memcpy(together + sizeof(header), body, length);
        write_all(fd, together, sizeof(header) + length);
        return;
    }
    write_all(fd, reinterpret_cast<const char*>(&header), sizeof(header));
    write_all(fd, body, length);
}

}  // namespace cuemu
