#include "tessera/spec/choice_names.hpp"

#include "tessera/base/text.hpp"

namespace tessera::spec {

using Words = std::vector<std::string>;

namespace {
// Of the lines of a .def file.
Words names_in(const auto& entries) {
  Words names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}
}  // namespace

template <>
const Words& words<Precision>() {
  static const Words list = {"fp32", "fp64", "bf16", "fp16"};
  return list;
}
template <>
const Words& words<TensorKind>() {
  static const Words list = {"1d", "2d", "2.5d", "3d"};
  return list;
}
template <>
const Words& words<Updates>() {
  static const Words list = {"synchronous", "bounded", "asynchronous"};
  return list;
}
template <>
const Words& words<Compression>() {
  static const Words list = {"none", "bf16", "int8", "powersgd"};
  return list;
}
template <>
const Words& words<OuterOptimizer>() {
  static const Words list = {"average", "nesterov"};
  return list;
}
template <>
const Words& words<Communication>() {
  static const Words out = {"arrival", "priority", "auto"};
  return out;
}
template <>
const Words& words<Recompute>() {
  static const Words list = {"none", "full", "selective", "budget"};
  return list;
}
template <>
const Words& words<Offload>() {
  static const Words list = {"optimizer", "parameters", "values"};
  return list;
}
template <>
const Words& words<Schedule>() {
  static const Words list = names_in(program::kSchedules);
  return list;
}
template <>
const Words& words<Optimizer>() {
  static const Words list = {"adamw", "sgd"};
  return list;
}
template <>
const Words& words<Packing>() {
  static const Words list = {"cut", "best-fit"};
  return list;
}
template <>
const Words& words<RopeScaling>() {
  static const Words list = {"llama3", "linear", "yarn"};
  return list;
}
template <>
const Words& words<RouterScores>() {
  static const Words list = {"softmax", "sigmoid"};
  return list;
}
template <>
const Words& words<Balance>() {
  static const Words list = {"none", "sequence", "batch", "bias"};
  return list;
}
template <>
const Words& words<Decay>() {
  static const Words list = {"constant", "cosine", "linear", "wsd"};
  return list;
}
template <>
const Words& words<Family>() {
  static const Words list = names_in(kFamilies);
  return list;
}
template <>
const Words& words<Transport>() {
  static const Words list = names_in(kTransports);
  return list;
}

std::string schedules_of(std::uint32_t num_virtual) {
  std::vector<std::string> names;
  for (const program::ScheduleEntry& entry : program::kSchedules)
    if (entry.num_virtual == num_virtual) names.emplace_back(entry.name);
  return join(names, ", ");
}

std::string schedule_name(const Layout& layout) {
  return layout.schedule_file.empty() ? word(layout.schedule) : layout.schedule_file;
}

std::string tp_text(const Layout& layout) {
  std::string out = cat(layout.tp);
  if (layout.in_blocks()) out += cat(" in ", word(layout.tp_kind));
  if (layout.tp_kind == TensorKind::d25) out += cat(" of depth ", layout.tp_depth);
  return out;
}

std::string lossy_text(const Layout& layout) {
  std::vector<std::string> out;
  if (layout.compress_gradients != Compression::none)
    out.push_back(cat("gradients ", word(layout.compress_gradients)));
  if (layout.compress_weights != Compression::none)
    out.push_back(cat("weights ", word(layout.compress_weights)));
  return join(out, ", ");
}

std::string shares_text(const Layout& layout) {
  const bool is_hybrid = layout.dp_replicate > 1 && layout.dp_shard > 1;
  std::string out =
      is_hybrid ? cat("dp ", layout.dp_replicate, " x ", layout.dp_shard) : cat("dp ", layout.dp());
  if (layout.servers > 0) out += cat(", servers ", layout.servers);
  if (layout.cp > 1) out += cat(", cp ", layout.cp);
  if (layout.tp > 1) out += cat(", tp ", tp_text(layout));
  if (layout.ep > 1) out += cat(", ep ", layout.ep);
  if (layout.etp > 1) out += cat(", etp ", layout.etp);
  if (layout.zero > 0) out += cat(", zero ", layout.zero);
  return out;
}

}  // namespace tessera::spec
