#include "tessera/plan/stages/segments.hpp"

#include <algorithm>
#include <set>

#include "tessera/base/error.hpp"

namespace tessera::plan {

using program::Piece;
using program::Segment;

SegmentTable::SegmentTable(std::int64_t tokens, program::Dtype dtype, program::Tables& tables)
    : tokens_(tokens), dtype_(dtype), tables_(tables) {
  for (std::uint32_t bucket = 0; bucket < tables.buckets.size(); ++bucket)
    for (const program::Parameter& parameter : tables.buckets[bucket].parameters)
      bucket_of_[parameter.name] = bucket;
}

void SegmentTable::add(program::Unit unit, const Cut& cut) {
  tables_.units.push_back(std::move(unit));
  const auto& pieces = tables_.units.back().pieces;
  std::uint32_t first = 0;
  for (const Stretch& stretch : cut) {
    Segment added = segment(first, stretch);
    first += stretch.num_pieces;
    write(added, first == pieces.size());
    tables_.segments.push_back(std::move(added));
  }
  TESSERA_CHECK(first == pieces.size(), "cuts of unit ", tables_.units.back().name, " cover ", first,
                " pieces");
}

Segment SegmentTable::segment(std::uint32_t first_piece, const Stretch& stretch) const {
  Segment out{.unit = static_cast<std::uint32_t>(tables_.units.size() - 1),
              .first_piece = first_piece,
              .num_pieces = stretch.num_pieces};
  out.recomputed = stretch.recomputed;
  std::set<std::uint32_t> buckets, read_backward;
  std::vector<std::string> written;
  for (std::uint32_t i = 0; i < stretch.num_pieces; ++i) {
    const Piece& piece = tables_.units.back().pieces[first_piece + i];
    for (const program::PieceLoss& loss : piece.losses)
      out.losses.push_back({.tokens = number(loss.tokens), .loss = number(loss.name)});
    for (const std::string& name : piece.parameters) {
      const std::uint32_t bucket = bucket_of_.at(name);
      buckets.insert(bucket);
      if (!is_vector(bucket) && std::ranges::count(piece.forward_only, name) == 0)
        read_backward.insert(bucket);
    }
    for (const std::string& name : piece.reads) {
      const auto found = value_of_.find(name);
      if (found == value_of_.end() || std::ranges::count(written, name) > 0) continue;
      if (std::ranges::count(out.reads, found->second) == 0) out.reads.push_back(found->second);
    }
    written.insert(written.end(), piece.writes.begin(), piece.writes.end());
  }
  out.buckets.assign(buckets.begin(), buckets.end());
  std::ranges::set_difference(buckets, read_backward, std::back_inserter(out.forward_only));
  return out;
}

// A tape holds copies of norms, and no backward reads a bias.
bool SegmentTable::is_vector(std::uint32_t bucket) const {
  return std::ranges::all_of(tables_.buckets[bucket].parameters,
                             [](const program::Parameter& parameter) { return parameter.shape.size() == 1; });
}

std::uint32_t SegmentTable::number(const std::string& name) const {
  const auto found = std::ranges::find(tables_.numbers, name, &program::Number::name);
  TESSERA_CHECK(found != tables_.numbers.end(), "no number is called ", name);
  return static_cast<std::uint32_t>(found - tables_.numbers.begin());
}

void SegmentTable::write(Segment& segment, bool ends_unit) {
  const program::Unit& unit = tables_.units.back();
  const Piece& last = unit.pieces[segment.first_piece + segment.num_pieces - 1];
  if (last.writes.empty() && !last.losses.empty()) return;  // the end of the model
  TESSERA_CHECK(last.writes.size() == 1 || !last.exchanges.empty(), "piece ", last.name,
                " ends a segment and writes ", last.writes.size(), " values");
  for (std::size_t i = 0; i < last.writes.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(tables_.values.size());
    const std::string& name = last.writes[i];
    const program::Exchange exchange = last.exchanges.empty() ? program::Exchange() : last.exchanges[i];
    const std::int64_t parts = exchange == program::Exchange() ? last.token_parts : 1;
    tables_.values.push_back({.name = ends_unit ? cat("hidden.", segment.unit) : cat(unit.name, ".", name),
                              .bytes = last.write_bytes.empty()
                                           ? tokens_ / parts * last.channels * bytes_of(dtype_)
                                           : last.write_bytes[i],
                              .channels = last.channels,
                              .token_parts = parts,
                              .exchange = exchange,
                              .dtype = dtype_});
    segment.writes.push_back(value);
    value_of_[name] = value;
  }
}

program::Staging in_segments(program::Staging by_unit, const program::Tables& tables) {
  for (std::uint32_t& first : by_unit.first_segment) {
    const auto found = std::ranges::find(tables.segments, first, &Segment::unit);
    first = static_cast<std::uint32_t>(found - tables.segments.begin());
  }
  return by_unit;
}

}  // namespace tessera::plan
