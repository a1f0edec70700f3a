// The walk of a compute order with a clock: when each task runs, and in which order values and gradients
// cross between ranks; transfers are admitted as the receivers' budget allows.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/program/schedule/order.hpp"
#include "tessera/program/schedule/span.hpp"

namespace tessera::program {

// A value leaves stage `stage` for the next one, a gradient for the one before.
struct Transfer {
  bool is_gradient = false;
  std::uint32_t stage = 0;
  std::int32_t micro = 0;
  std::uint32_t sender_slot = 0, receiver_slot = 0;  // tasks that are issued before it, on each side
  std::uint32_t posted_after = 0;                    // receiver: so many of its tasks have ended by then
  Span span;
};

struct Walk {
  std::vector<std::vector<Span>> tasks;      // by rank and task
  std::vector<Transfer> transfers;           // in the order in which every rank must see its own
  std::vector<std::vector<bool>> with_next;  // by rank and task: it and the next one ran as a pair
  double makespan = 0;
  std::string stuck;  // not empty: which tasks wait for each other; the rest is what ran until then
};

struct WalkOptions {
  // Values and gradients that a rank may have received, or be receiving, before the task that uses them
  // starts. The one that its next task needs always comes.
  std::uint32_t receives_ahead = std::numeric_limits<std::uint32_t>::max();
  // A forward and a whole backward of two micro-batches that follow each other run as a pair: they start
  // together and end together. A pair that could never start is parted.
  bool in_pairs = false;
};

// Every task starts as soon as its rank is free and what it needs is there. Values share no link with
// gradients; the transfers of one kind that a rank sends (or receives) follow each other.
Walk walk(const Order& order, const Costs& costs, const WalkOptions& options = {});

}  // namespace tessera::program
