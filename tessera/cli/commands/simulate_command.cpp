#include <algorithm>
#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/commands/simulated.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

std::int64_t num_ops(const program::Program& program) {
  std::size_t total = 0;
  for (const auto& sequence : program.classes) total += sequence.ops.size();
  return static_cast<std::int64_t>(total);
}

// By class of ranks; only a run file has bytes.
std::vector<std::int64_t> peak_bytes(const Simulated& simulated) {
  std::vector<std::int64_t> out;
  if (!simulated.run) return out;
  const plan::DevicePlan device = plan::device_plan(simulated.run->cluster.transport, simulated.program);
  for (const plan::RankMemory& rank : plan::memory_of(simulated.program, device))
    out.push_back(rank.peak_bytes);
  return out;
}

struct Reports {
  simulate::Report free, one_queue;
};

metrics::Record to_record(const Simulated& simulated, const Reports& reports, double seconds) {
  const simulate::Report& report = reports.free;
  std::vector<std::int64_t> ranks, peaks;
  std::vector<double> busy;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    ranks.push_back(report.classes[c].num_ranks);
    peaks.push_back(report.classes[c].peak_activations);
    busy.push_back(report.classes[c].busy);
  }
  metrics::Record out = {{"schedule", simulated.name},
                         {"stages", simulated.layout.pp},
                         {"virtual", simulated.layout.virtual_stages},
                         {"micro_batches", simulated.num_micro},
                         {"makespan", report.makespan},
                         {"bubble", report.bubble},
                         {"step_seconds", report.step_seconds},
                         {"step_seconds_one_queue", reports.one_queue.step_seconds},
                         {"peak_activations", peaks},
                         {"busy", busy},
                         {"ranks", ranks},
                         {"ops", num_ops(simulated.program)},
                         {"note", simulated.note},
                         {"costs", simulated.costs_text},
                         {"seconds", seconds}};
  if (simulated.is_in_seconds) out.push_back({"peak_bytes", peak_bytes(simulated)});
  return out;
}

std::string bar(double share) {
  constexpr int kWidth = 30;
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth + 0.5);
  std::string out;
  for (int i = 0; i < kWidth; ++i) out += i < full ? "█" : "·";
  return out;
}

std::string to_text(const Simulated& simulated, const Reports& reports, double seconds) {
  const simulate::Report& report = reports.free;
  const auto time = [&](double t) {
    return simulated.is_in_seconds ? cat(fixed(t * 1e3, 2), " ms") : cat(fixed(t, 3));
  };
  std::string out = title_of(simulated) + "\n";
  if (!simulated.note.empty()) out += cat(simulated.note, "\n");
  out += cat("costs: ", simulated.costs_text, "\n");
  out += cat("makespan ", time(report.makespan), ", bubble ", fixed(100 * report.bubble, 1), " %");
  if (simulated.is_in_seconds) out += cat(", whole step ", time(report.step_seconds));
  out += "\n";
  if (simulated.is_in_seconds && reports.one_queue.step_seconds > report.step_seconds)
    out += cat("whole step ", time(reports.one_queue.step_seconds),
               " where a device runs all its communication in one queue, as GPUs may at the worst\n");
  out += "\n";
  const auto& class_of_rank = simulated.program.tables.class_of_rank;
  const bool has_equals = class_of_rank.size() > report.classes.size();
  std::vector<std::vector<std::string>> rows = {{"rank", "activations", "busy %", ""}};
  if (has_equals) rows[0].push_back("equal ranks");
  if (simulated.is_in_seconds) rows[0].push_back("most bytes");
  const auto bytes = peak_bytes(simulated);
  for (std::uint32_t c = 0; c < report.classes.size(); ++c) {
    const auto& of_class = report.classes[c];
    const auto rank = std::ranges::find(class_of_rank, c) - class_of_rank.begin();
    rows.push_back(
        {cat(rank), cat(of_class.peak_activations), fixed(100 * of_class.busy, 1), bar(of_class.busy)});
    if (has_equals) rows.back().push_back(cat(of_class.num_ranks));
    if (simulated.is_in_seconds) rows.back().push_back(bytes_text(static_cast<double>(bytes[c])));
  }
  return cat(out, table(rows), num_ops(simulated.program), " ops compiled, checked and simulated in ",
             fixed(seconds * 1e3, 1), " ms\n");
}

}  // namespace

int simulate_command(const Options& options) {
  const double start = now_seconds();
  const Simulated simulated = simulated_of(options);
  const auto report_of = [&](simulate::Queues queues) {
    return simulate::report(simulated.program,
                            simulate::simulate(simulated.program, simulated.costs, queues));
  };
  const Reports reports{report_of(simulate::Queues::one_per_lane),
                        report_of(simulate::Queues::one_per_device)};
  const double seconds = now_seconds() - start;
  std::fputs((options.json ? metrics::json_object(to_record(simulated, reports, seconds)) + "\n"
                           : to_text(simulated, reports, seconds))
                 .c_str(),
             stdout);
  return 0;
}

}  // namespace tessera::cli
