#include "tessera/draw/memory_picture.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/program/diagnose/op_description.hpp"

namespace tessera::draw {
namespace {

// While each op of the compute lane runs: the fullest moment since the one before.
std::vector<MemoryLevel> levels_of(const program::Sequence& sequence, const program::Tables& tables,
                                   const std::vector<program::Span>& spans) {
  const auto during = program::categories_during(sequence, tables);
  std::vector<MemoryLevel> out;
  BytesHeld fullest = {};
  for (std::size_t i = 0; i < sequence.ops.size(); ++i) {
    if (during[i].total() >= fullest.total()) fullest = during[i];
    if (sequence.ops[i].lane.kind != program::LaneKind::compute) continue;
    out.push_back({spans[i].start, fullest});
    fullest = {};
  }
  return out;
}

}  // namespace

MemoryPicture memory_picture(const program::Program& program, const simulate::Timeline& timeline,
                             std::int64_t limit_bytes) {
  TESSERA_CHECK(timeline.classes.size() == program.classes.size(), "a timeline of ", timeline.classes.size(),
                " classes for a program of ", program.classes.size());
  MemoryPicture out{.limit_bytes = limit_bytes};
  const auto& class_of_rank = program.tables.class_of_rank;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const auto& spans = timeline.classes[c];
    const program::Memory memory = program::replay_memory(program.classes[c], program.tables);
    const auto rank = std::ranges::find(class_of_rank, c) - class_of_rank.begin();
    const auto equals = std::ranges::count(class_of_rank, c) - 1;
    MemoryPanel& panel = out.panels.emplace_back();
    panel.title = cat("rank ", rank, equals > 0 ? cat(" (and ", equals, " equal to it)") : "");
    panel.levels = levels_of(program.classes[c], program.tables, spans);
    panel.peak_bytes = memory.peak_bytes;
    panel.peak_time = spans.at(memory.peak_op).start;
    panel.peak_text =
        cat(bytes_text(static_cast<double>(memory.peak_bytes)), " in ",
            program::described(program, static_cast<int>(rank), static_cast<std::int32_t>(memory.peak_op)));
    for (const program::Span& span : spans) out.end = std::max(out.end, span.end);
  }
  return out;
}

}  // namespace tessera::draw
