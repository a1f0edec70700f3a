// What a Group holds: its members and a c10d backend. Only the heavy files of this module include it, after
// c10d's Backend.hpp.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/tensor/tensor.hpp"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace tessera::collective {

// Waits for sends that are under way, so that Group::send need not. Its destructor waits for the last of
// them. All sends are of tensors on one device.
class Outbox {
 public:
  ~Outbox();
  // Takes over a send of a tensor on `device`; throws PeerLost if an earlier one failed.
  void keep(c10::intrusive_ptr<c10d::Work> send, c10::Device device);
  // Throws PeerLost if a send has failed by now.
  void check() const;
  // Waits until all sends are through or the patience is over; returns how many are not. Throws as check().
  std::size_t wait(std::chrono::milliseconds patience);

 private:
  void wait_for_sends(c10::Device device);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<c10d::Work>> sends_;
  std::size_t num_under_way_ = 0;  // with the one that is waited for
  bool closing_ = false;
  std::optional<std::string> failure_;  // of the first send that failed
  std::thread thread_;
};

struct Link {
  std::vector<int> ranks;  // global ranks, by position
  int rank = 0;            // own position
  c10::intrusive_ptr<c10d::Backend> backend;
  Outbox outbox;  // last, so that it ends before the backend
};

// A link of these members, without a backend yet, for the member whose global rank is `own`.
std::shared_ptr<Link> make_link(const std::vector<int>& ranks, int own);

// What a backend returns of an operation that had ended when it returned.
c10::intrusive_ptr<c10d::Work> done_work();

// The first line of an error's text, without stack, source lines and advice.
std::string short_text(const std::exception& error);

}  // namespace tessera::collective
