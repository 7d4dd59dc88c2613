// Just enough JSON to send a report to Python.
#pragma once
#include <inttypes.h>
#include <stdio.h>

#include <string>

#include "../include/cuemu/abi.h"

namespace cuemu {

struct Json {
    std::string text;

    void begin(char bracket) { comma(), text += bracket; }
    void begin(const char* name, char bracket) { key(name), text += bracket; }
    void end(char bracket) { text += bracket; }
    void value(uint64_t number) { comma(), text += std::to_string(number); }
    void value(const std::string& words) { comma(), quote(words); }
    void value(uint3 v) {
        comma();
        text += '[' + std::to_string(v.x) + ',' + std::to_string(v.y) + ',' + std::to_string(v.z) + ']';
    }
    void raw(const char* name, const std::string& json) { key(name), text += json; }
    void raw_value(const std::string& json) { comma(), text += json; }
    template <class T> void field(const char* name, T v) {
        key(name);
        skip_comma_ = true;
        value(v);
    }

   private:
    void comma() {
        if (skip_comma_) {
            skip_comma_ = false;
        } else if (!text.empty() && text.back() != '[' && text.back() != '{') {
            text += ',';
        }
    }
    void key(const char* name) { comma(), quote(name), text += ':'; }
    void quote(const std::string& words) {
        text += '"';
        for (const char c : words) {
            if (c == '"' || c == '\\') {
                text += '\\', text += c;
            } else if (static_cast<unsigned char>(c) < 0x20) {
                char escaped[8];
                snprintf(escaped, sizeof(escaped), "\\u%04x", c);
                text += escaped;
            } else {
                text += c;
            }
        }
        text += '"';
    }
    bool skip_comma_ = false;
};

}  // namespace cuemu
