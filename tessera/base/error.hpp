// The three kinds of error, each with its exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "tessera/base/text.hpp"

namespace tessera {

// The user can mend it: the message names what, where, what is allowed and what to do. Exit code 2.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Tessera broke a promise to itself. Exit code 70.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A peer is gone or silent; starting again may help. Exit code 75.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kExitNo = 1;  // not an error: the answer is no (verify: the layout is not equal)
inline constexpr int kExitUserError = 2;
inline constexpr int kExitBug = 70;
inline constexpr int kExitPeerLost = 75;

// The exit code that belongs to an error; anything unknown counts as a bug.
int exit_code(const std::exception& error);

[[noreturn]] void throw_bug(const char* file, int line, const char* condition, const std::string& message);

}  // namespace tessera

// Always on. TESSERA_CHECK(condition, parts...) throws Bug with the parts joined by cat().
#define TESSERA_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::tessera::throw_bug(__FILE__, __LINE__, #condition, ::tessera::cat(__VA_ARGS__)); \
  } while (false)
