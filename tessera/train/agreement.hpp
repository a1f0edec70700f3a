// What the ranks of a run agree on between two steps: whether to stop, to save or to end, and what they count
// and hear from the first of them. A sum that can't be right ends the rank with PeerLost instead of leading
// it astray.
#pragma once

#include <cstdint>
#include <functional>
#include <future>

#include "tessera/train/session.hpp"

namespace tessera::train {

struct Wishes {
  int stop_signal = 0;  // SIGINT, SIGTERM, SIGHUP or SIGUSR1; 0: go on
  bool save = false;
  bool end = false;  // a rank can't make the next step
  bool operator==(const Wishes&) const = default;
};

// All ranks ask the same number of times; each gets what any of them wishes, so that all stop and save after
// the same step. Where steps overlap, an answer is sought by a thread of its own, beside them.
class Agreement {
 public:
  explicit Agreement(const Session& session) : session_(session) {}
  // Among more ranks than those of the session.
  using Sums = std::function<std::vector<double>(std::vector<double>)>;
  Agreement(const Session& session, Sums sums) : session_(session), sums_(std::move(sums)) {}
  void ask(const Wishes& mine);
  Wishes answer() { return answer_.get(); }

 private:
  const Session& session_;
  Sums sums_;
  std::future<Wishes> answer_;
};

// On how many ranks it is so. All call it.
std::int64_t num_ranks_where(const Session& session, bool is_so_here);

// The number that rank 0 brings; what others bring doesn't matter. Exact up to 2^53. All call it.
std::int64_t number_of_first(const Session& session, int rank, std::int64_t number);

}  // namespace tessera::train
