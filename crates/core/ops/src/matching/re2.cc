// RE2 for Rust: C functions around the one class that is needed. RE2 throws nothing itself; memory
// that cannot be had is caught here, because an exception must not reach Rust.

#include <re2/re2.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

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

// The leftmost match in text[from..len]: 1 if there is one, 0 if not, -1: out of memory. Writes where it and
// its groups begin and end, as many as asked for; both are SIZE_MAX for a group that takes no part.
int overside_re2_find(const void *re, const char *text, std::size_t len, std::size_t from,
                      std::size_t *places, std::size_t groups) noexcept {
    try {
        constexpr std::size_t kFew = 8;
        re2::StringPiece few[kFew];
        std::vector<re2::StringPiece> many(groups > kFew ? groups : 0);
        re2::StringPiece *found = groups > kFew ? many.data() : few;
        const re2::StringPiece all(text, len);
        const RE2 *program = static_cast<const RE2 *>(re);
        if (!program->Match(all, from, len, RE2::UNANCHORED, found, static_cast<int>(groups))) return 0;
        for (std::size_t group = 0; group < groups; group++) {
            const char *data = found[group].data();
            places[2 * group] = data ? static_cast<std::size_t>(data - text) : SIZE_MAX;
            places[2 * group + 1] = data ? places[2 * group] + found[group].size() : SIZE_MAX;
        }
        return 1;
    } catch (...) {
        return -1;
    }
}

}
