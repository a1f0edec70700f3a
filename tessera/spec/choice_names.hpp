// The names of the choices in a run file: one list per enum, in the order of its values.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::spec {

// All words of an enum.
template <typename Enum>
const std::vector<std::string>& words();

// The word of one value: word(Decay::wsd) is "wsd".
template <typename Enum>
const std::string& word(Enum value) {
  return words<Enum>()[static_cast<std::size_t>(value)];
}

// Names of the schedules that take so many virtual stages per rank (0: any number), "interleaved, bfs".
std::string schedules_of(std::uint32_t num_virtual);

// By which name a run's order of micro-batches goes: that of its schedule, or of its file.
std::string schedule_name(const Layout& layout);

// How ranks share the work, but for the pipeline: "dp 2 x 4, cp 2, tp 2, zero 1", replicas before shards.
std::string shares_text(const Layout& layout);
// What its traffic loses: "gradients int8, weights bf16"; empty: nothing.
std::string lossy_text(const Layout& layout);
// "8", "8 in 3d".
std::string tp_text(const Layout& layout);

template <>
const std::vector<std::string>& words<Precision>();
template <>
const std::vector<std::string>& words<TensorKind>();
template <>
const std::vector<std::string>& words<Recompute>();
template <>
const std::vector<std::string>& words<Communication>();
template <>
const std::vector<std::string>& words<Updates>();
template <>
const std::vector<std::string>& words<Compression>();
template <>
const std::vector<std::string>& words<OuterOptimizer>();
template <>
const std::vector<std::string>& words<Offload>();
template <>
const std::vector<std::string>& words<Schedule>();
template <>
const std::vector<std::string>& words<Optimizer>();
template <>
const std::vector<std::string>& words<Packing>();
template <>
const std::vector<std::string>& words<RopeScaling>();
template <>
const std::vector<std::string>& words<RouterScores>();
template <>
const std::vector<std::string>& words<Balance>();
template <>
const std::vector<std::string>& words<Decay>();
template <>
const std::vector<std::string>& words<Family>();
template <>
const std::vector<std::string>& words<Transport>();

}  // namespace tessera::spec
