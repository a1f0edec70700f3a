#include "tessera/program/check/check.hpp"

#include "tessera/base/text.hpp"
#include "tessera/program/check/check_parts.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/memory/memory.hpp"

namespace tessera::program {
namespace {

void check_budget(const Program& program, std::uint32_t rank_class, std::int64_t budget_bytes,
                  std::vector<Problem>& out) {
  const Sequence& sequence = program.classes[rank_class];
  const Memory memory = replay_memory(sequence, program.tables);
  if (memory.peak_bytes <= budget_bytes) return;
  const auto kind = [&](CellKind k) {
    return static_cast<double>(memory.at_peak[static_cast<std::size_t>(k)]);
  };
  out.push_back({rank_class, memory.peak_op,
                 cat(named(sequence, memory.peak_op, program.tables), " holds ",
                     bytes_text(static_cast<double>(memory.peak_bytes)), ", more than the budget of ",
                     bytes_text(static_cast<double>(budget_bytes)), ": parameters ",
                     bytes_text(kind(CellKind::shard) + kind(CellKind::full) + kind(CellKind::ahead)),
                     ", gradients ", bytes_text(kind(CellKind::weight_grad) + kind(CellKind::shard_grad)),
                     ", optimizer ", bytes_text(kind(CellKind::state)), ", tapes ",
                     bytes_text(kind(CellKind::tape) + kind(CellKind::weight_work)), ", values ",
                     bytes_text(kind(CellKind::value) + kind(CellKind::gradient)), ", scratch ",
                     bytes_text(static_cast<double>(memory.scratch_at_peak)))});
}

}  // namespace

std::string named(const Sequence& sequence, std::uint32_t op, const Tables& tables) {
  return cat("op ", op, " (", word(sequence.ops[op], tables), ")");
}

std::vector<Problem> check(const Program& program, const CheckOptions& options) {
  std::vector<Problem> out;
  check_ranges(program, out);
  if (!out.empty()) return out;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    check_axes(program, c, out);
    const Touches touches(program.classes[c], program.tables);
    check_cells(program, c, touches, out);
    check_order(program, c, touches, out);
    if (options.budget_bytes > 0) check_budget(program, c, options.budget_bytes, out);
  }
  check_sum_order(program, out);
  check_compute(program, out);
  check_meetings(program, options.runs_ahead, out);
  return out;
}

std::string to_text(const std::vector<Problem>& problems, std::size_t limit) {
  std::string out;
  for (std::size_t i = 0; i < problems.size() && i < limit; ++i)
    out += cat("class ", problems[i].rank_class, ", ", problems[i].text, "\n");
  if (problems.size() > limit) out += cat("and ", problems.size() - limit, " more\n");
  return out;
}

}  // namespace tessera::program
