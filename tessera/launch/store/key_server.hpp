// The server of a job's keys and of the ranks' reports: one thread of the launcher, or of rank 0 of a job
// started by others. It never waits for one client.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/launch/net/listener.hpp"

namespace tessera::launch {

// Both are called on the server's thread, which serves nobody meanwhile; neither may throw.
struct KeyServerCallbacks {
  std::function<void(int rank, std::string_view bytes)> on_report = {};
  // Its connection broke off without a goodbye; called once per connection.
  std::function<void(int rank)> on_lost = {};
  // Ranks that the others do without: whoever waits for a connection to one that is gone is told so, and
  // nobody else. Empty: the job is lost with any rank.
  std::function<bool(int rank)> may_be_lost = {};
};

// Who is to come over a connection; -1: any rank. Newcomers: see Note [Meetings] in meeting.hpp.
struct Arrival {
  int rank = -1;
  bool is_newcomer = false;
};

// A stranger came through the door and has not introduced itself yet. When there are too many, the oldest
// goes: a rank needs its place for a moment only, and comes again if it lost it.
struct StrangerLimits {
  std::size_t most = 128;
  double seconds = 10;
  std::size_t bytes = 4096;
};

class KeyServer {
 public:
  explicit KeyServer(KeyServerCallbacks callbacks = {}, StrangerLimits limits = {});
  // Ends all connections.
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

  // One end of a connection that exists nowhere else, for a KeyClient of this process or of a child that
  // inherits it (it is closed on exec unless told otherwise).
  Descriptor connect(Arrival arrival = Arrival());
  // Also serves whom this door lets in, until all that are awaited have introduced themselves; then it is
  // closed. `awaited` has a rank once for each of its connections; others are refused. One that leaves before
  // all have come is awaited again. At most one door.
  void open(std::unique_ptr<Listener> listener, const std::vector<int>& awaited);
  // Until all have come, or the time is over; returns who is still awaited. Throws PeerLost when the job is
  // lost before.
  std::vector<int> wait_until_come(std::chrono::milliseconds timeout);
  // From now on every client that waits or asks gets PeerLost with these words.
  void abort(const std::string& reason);
  // Until all who came through the door have left, or the time is over.
  void wait_until_left(std::chrono::milliseconds timeout);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tessera::launch
