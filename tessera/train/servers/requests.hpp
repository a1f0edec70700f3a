// In which order servers serve workers: as they ask, but for those that are too far ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace tessera::train {

// Weights for a step, a gradient that is ready, or nothing any more.
enum class Ask : std::int64_t { pull = 1, push = 2, leave = 3 };

class Requests {
 public:
  // `staleness`: updates that a worker which gets weights may be ahead of the slowest; nothing: any number.
  Requests(int workers, std::optional<std::int64_t> staleness);

  void ask(int worker, Ask ask);
  // It takes no part from now on.
  void remove(int worker);

  struct Next {
    int worker = 0;
    Ask ask = Ask::pull;
  };
  // The first that may be served, which then counts as served; a push as one more update of the worker.
  std::optional<Next> take();

  bool is_present(int worker) const { return is_present_[static_cast<std::size_t>(worker)]; }
  bool is_over() const;
  std::int64_t updates(int worker) const { return updates_[static_cast<std::size_t>(worker)]; }
  // Of the workers that are present, how many fewer updates than it the slowest has.
  std::int64_t ahead(int worker) const;

 private:
  std::optional<std::int64_t> staleness_;
  std::vector<bool> is_present_;
  std::vector<std::int64_t> updates_;
  std::deque<Next> waiting_;
};

}  // namespace tessera::train
