#include "tessera/plan/identity.hpp"

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::plan {

namespace {

// The set as a partition of the ranks: what it is, not what it is called.
std::string partition_text(const mesh::AxisSet& set) {
  if (set.size() == 1) return "alone";
  std::string out;
  for (const auto& group : set.groups()) {
    out += "(";
    for (const auto rank : group) out += cat(rank, " ");
    out += ")";
  }
  return out;
}

}  // namespace

std::string identity(const program::Program& program) {
  program::Program renamed = program;
  auto& tables = renamed.tables;
  const auto sets = program::sets_of(program.tables);
  for (std::size_t i = 0; i < sets.size(); ++i) tables.axis_sets[i].name = partition_text(sets[i]);
  const auto name = [&](std::int16_t set) {
    return set < 0 ? "alone" : tables.axis_sets[static_cast<std::size_t>(set)].name;
  };
  std::string out = program::to_text(renamed);
  for (const auto& bucket : tables.buckets) {
    out += cat("bucket cut ", name(bucket.cut_over), " sharded ", name(bucket.sharded_over), " reduced ",
               name(bucket.reduced_over), " shared ", name(bucket.shared_over), "\n");
    for (const auto& parameter : bucket.parameters) {
      out += cat(parameter.name, " ", parameter.offset, " ");
      for (const auto& cut : parameter.cuts) out += cat(cut.dim, " in ", cut.parts, " ");
      out += cat(parameter.elements(), "\n");
    }
  }
  for (const auto& unit : tables.units)
    for (const auto& piece : unit.pieces)
      for (const auto* calls : {&piece.collectives, &piece.backward_collectives})
        for (const auto& call : *calls)
          out +=
              cat(piece.name, " ", static_cast<int>(call.kind), " ", name(call.over), " ", call.bytes, "\n");
  for (const auto rank_class : tables.class_of_rank) out += cat(rank_class, " ");
  return out;
}

std::string fingerprint(const program::Program& program) {
  std::string text = identity(program);
  for (const auto& value : program.tables.values) text += cat(value.name, " ", value.bytes, "\n");
  return cat(stream_of(text));
}

}  // namespace tessera::plan
