// RE2 for Rust: C functions around the one class that is needed. RE2 throws nothing itself; memory
// that cannot be had is caught here, because an exception must not reach Rust.

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

extern "C" {

// Compiles a pattern over bytes; null, and a reason in `error`, if it does not compile.
void *overside_re2_new(const char *pattern, std::size_t len, std::int64_t max_bytes, char *error,
                       std::size_t error_len) noexcept {
    try {
        RE2::Options options;
        options.set_encoding(RE2::Options::EncodingLatin1);
        options.set_log_errors(false);
        options.set_max_mem(max_bytes);
        auto re = std::make_unique<RE2>(re2::StringPiece(pattern, len), options);
        if (re->ok()) return re.release();
        std::strncpy(error, re->error().c_str(), error_len - 1);
    } catch (...) {
        std::strncpy(error, "out of memory", error_len - 1);
    }
    error[error_len - 1] = '\0';
    return nullptr;
}

void overside_re2_delete(void *re) noexcept { delete static_cast<RE2 *>(re); }

// The end of the leftmost match in text[from..len]; -1: there is none, -2: out of memory.
std::ptrdiff_t overside_re2_find(const void *re, const char *text, std::size_t len,
                                 std::size_t from) noexcept {
    try {
        re2::StringPiece match;
        const re2::StringPiece all(text, len);
        const RE2 *program = static_cast<const RE2 *>(re);
        if (!program->Match(all, from, len, RE2::UNANCHORED, &match, 1)) return -1;
        return match.data() + match.size() - text;
    } catch (...) {
        return -2;
    }
}

}
