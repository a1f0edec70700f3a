// Turns units into segments: stretches of pieces with the values they read and write, side by side in the
// tables.
#pragma once

#include <map>
#include <string>

#include "tessera/plan/stages/cuts.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/program/passes/generate.hpp"

namespace tessera::plan {

// Fills units, segments and values of the tables, unit by unit along the model.
class SegmentTable {
 public:
  // tokens: of a micro-batch, on one rank. The tables' buckets and numbers are there.
  SegmentTable(std::int64_t tokens, program::Dtype dtype, program::Tables& tables);

  void add(program::Unit unit, const Cut& cut);

 private:
  program::Segment segment(std::uint32_t first_piece, const Stretch& stretch) const;
  bool is_vector(std::uint32_t bucket) const;
  std::uint32_t number(const std::string& name) const;
  void write(program::Segment& segment, bool ends_unit);

  const std::int64_t tokens_;
  const program::Dtype dtype_;
  program::Tables& tables_;
  std::map<std::string, std::uint32_t> bucket_of_;  // by parameter
  std::map<std::string, std::uint32_t>
      value_of_;  // by the name that pieces call it by; constants are not in it
};

// Stages in units, as stages in the segments of the tables.
program::Staging in_segments(program::Staging by_unit, const program::Tables& tables);

}  // namespace tessera::plan
