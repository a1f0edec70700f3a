// Does everybody get through? Ops of all classes as one graph, walked without a clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/check.hpp"

namespace tessera::program {

struct Place {
  std::uint32_t rank_class = 0, op = 0;
};

class Meetings {
 public:
  explicit Meetings(const Program& program);
  // Two members of one group op: neither ends before both can start.
  void join_group(Place a, Place b);
  // A send and its receive.
  void join_transfer(Place send, Place receive);

  struct Mode {
    bool rendezvous = false;  // a send and its receive happen at one time
    bool one_queue = false;   // all communication of a rank keeps its order of issue
  };
  // Advances all classes together; if they get stuck, appends the cycle in words.
  void walk(Mode mode, const std::string& mode_text, std::vector<Problem>& out) const;

 private:
  struct Graph;  // of one walk
  std::uint32_t id(Place place) const { return first_[place.rank_class] + place.op; }
  Place place(std::uint32_t id) const;
  Graph graph(Mode mode) const;
  void say_cycle(const Graph& graph, const std::string& mode_text, std::vector<Problem>& out) const;

  const Program& program_;
  std::vector<std::uint32_t> first_;  // per class: the id of its op 0
  std::uint32_t num_ids_ = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> groups_;  // ids that meet
  std::vector<std::uint32_t> sender_;                            // per id: of a receive, its send; else none
};

}  // namespace tessera::program
