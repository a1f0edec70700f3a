// Runs that somebody measured, one line of a CSV file each: what they computed, on what, and how long a step
// took.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/planner/estimate.hpp"

namespace tessera::planner {

struct MeasuredRun {
  std::string id, stack, quality, kernels;
  std::string record;  // its line of the table
  Workload work;
  Device device;
  Network network;
  double seconds = 0;    // of a step; 0: not measured
  double memory_gb = 0;  // of the fullest rank, as printed there; 0: not measured
  bool out_of_memory = false;
  // Why nothing can be said of it; empty: something can.
  std::string unusable;
  bool operator==(const MeasuredRun&) const = default;
};

// Note [Columns of a table of runs]
// A stack is what stands before the first "-" of the id, and the device. What has no column is read from
// `notes`: the attention kernel, the schedule, the ranks that share the optimizer's state (zero1=8), the
// network of a node, eager or compiled, and whether tensor parallelism's collectives overlap. Left out:
// virtual stages, cp and micro-batch 1, a vocabulary of 51,200, as many heads of keys as of queries. An inner
// width of four times the hidden one is an MLP of two matrices, any other one of three. The width of an
// expert follows from model_params. Throws UserError with the line of what is no such table.
std::vector<MeasuredRun> read_runs(std::string_view csv, const std::string& name);

// The columns of a table, as they stand in it.
std::string first_line(std::string_view csv);

// The cells of one record of a CSV text, quotes undone; moves `at` behind it. Nothing at the end.
std::optional<std::vector<std::string>> csv_record(std::string_view text, std::size_t& at);

}  // namespace tessera::planner
