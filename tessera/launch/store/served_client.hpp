// What the key server knows of a connection and of who is at its other end.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/launch/net/channel.hpp"
#include "tessera/launch/net/wire.hpp"
#include "tessera/launch/store/key_table.hpp"

namespace tessera::launch {

struct ServedClient {
  std::unique_ptr<Channel> channel;  // null once the connection has ended
  std::string in = {}, out = {};
  std::size_t num_sent = 0;                                      // of `out`
  std::deque<std::pair<std::size_t, Descriptor>> enclosed = {};  // by the place in `out` where they are sent
  bool closing = false;                                          // once `out` is written
  int rank = -1;                                // introduced, and not gone with a goodbye: its end is a loss
  double stranger_until_seconds = 0;            // 0: no stranger
  bool is_guest = false;                        // introduced, and came through the door
  KeyTable::Request exchange = 0;               // the one it waits for; 0: none
  std::map<std::string, int> unconnected = {};  // the ranks, by names for which they have not asked yet
  std::optional<Request> meeting = {};          // the one it waits in
  int awaited = -1;                             // who it is, or is to be, if that is known
  bool is_new = false;                          // a newcomer, until a meeting has admitted it
  double deadline_seconds = 0;                  // of what it waits for
  bool waits() const { return exchange != 0 || !unconnected.empty() || meeting; }
  // What its connection is polled for. Who doesn't take its answers is not asked for more.
  short events() const;
  // As much of `out` as the connection takes; false: it has broken off.
  bool send();
};

}  // namespace tessera::launch
