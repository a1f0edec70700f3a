// One rank's line of a schedule. A rank's tasks as a schedule writes them down: micro-batches of a stage come
// in order.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

class Line {
 public:
  void forward(std::uint32_t stage) { add(OpKind::forward, stage, forwards_[stage]++); }
  void backward(std::uint32_t stage) { add(OpKind::backward, stage, backwards_[stage]++); }
  // The halves of a backward: a weight half is the oldest that waits, of this stage or of any.
  void input(std::uint32_t stage) {
    waiting_.push_back({OpKind::backward_weight, stage, backwards_[stage]});
    add(OpKind::backward_input, stage, backwards_[stage]++);
  }
  void weight(std::uint32_t stage) { take(std::ranges::find(waiting_, stage, &Task::stage)); }
  void oldest_weight() { take(waiting_.begin()); }

  std::int32_t forwards(std::uint32_t stage) const {
    const auto found = forwards_.find(stage);
    return found == forwards_.end() ? 0 : found->second;
  }
  std::size_t weights_waiting() const { return waiting_.size(); }

  // The tasks of the first micro-batches.
  std::vector<Task> tasks(std::int32_t num_micro) && {
    std::erase_if(tasks_, [&](const Task& task) { return task.micro >= num_micro; });
    return std::move(tasks_);
  }

 private:
  void add(OpKind what, std::uint32_t stage, std::int32_t micro) { tasks_.push_back({what, stage, micro}); }
  void take(std::vector<Task>::iterator task) {
    TESSERA_CHECK(task != waiting_.end(), "no weight half waits");
    tasks_.push_back(*task);
    waiting_.erase(task);
  }

  std::vector<Task> tasks_, waiting_;
  std::map<std::uint32_t, std::int32_t> forwards_, backwards_;
};

}  // namespace tessera::program
