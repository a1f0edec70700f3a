// The messages between a KeyClient and the KeyServer. A message is its length (4 bytes, little-endian) and a
// body; a body that doesn't parse to its last byte is malformed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/process/key_store.hpp"

namespace tessera::launch {

inline constexpr std::uint32_t kMaxBodyBytes = 64u << 20;
inline constexpr std::size_t kLengthBytes = 4;

struct Request {
  // hello comes first, with the rank; goodbye comes last. connect names connections to other ranks by `keys`,
  // and with `puts` the ranks. meet, admit (meet, and let newcomers in) and join: see Note [Meetings] in
  // launch/store/meeting.hpp; `keys` are the ranks, `report` is what this one brings.
  enum class Kind : std::uint8_t { exchange, hello, report, goodbye, connect, meet, admit, join };
  Kind kind = Kind::exchange;
  std::int32_t rank = 0;
  std::string report = {};
  std::int64_t timeout_milliseconds = 0;
  KeyValues puts = {};
  std::vector<std::string> keys = {};
  bool operator==(const Request&) const = default;
};

struct Reply {
  // values: also the plain answer to a report; missing: the keys that did not come in time; lost, refused:
  // words; connected: the name of a connection, whose descriptor comes with the message.
  enum class Kind : std::uint8_t { values, missing, lost, refused, connected };
  Kind kind = Kind::values;
  std::vector<std::string> texts = {};
  bool operator==(const Reply&) const = default;
};

// With the length in front; throws UserError when the body would be longer than kMaxBodyBytes.
std::string encode(const Request& request);
std::string encode(const Reply& reply);

// Of a body, without its length; nothing if malformed.
std::optional<Request> parse_request(std::string_view body);
std::optional<Reply> parse_reply(std::string_view body);

// The length in front of a message; `head` has kLengthBytes or more.
std::uint32_t body_bytes(std::string_view head);

}  // namespace tessera::launch
