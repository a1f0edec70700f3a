// What the workers ask of the first server, as it comes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/train/servers/requests.hpp"

namespace tessera::train {

// A thread for each of the workers waits for it. `from`: by worker, the connections, which must outlive it.
class Inbox {
 public:
  explicit Inbox(const std::vector<collective::Group>& from);
  ~Inbox();

  struct Letter {
    int worker = 0;
    std::optional<Ask> ask;  // nothing: it is gone
  };
  // Those that have come; waits for one if there is none, until `patience` is over.
  std::vector<Letter> take(std::chrono::milliseconds patience);

 private:
  void listen(int worker, const collective::Group& group);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Letter> letters_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::train
