// Checks that the checker tells right from wrong. Random edits of pipeline programs: each is refused with a
// reason, or executed with the numbers of the original program; none hangs. Random legal reorderings: each is
// accepted and gives these numbers.
//   build/release/tests/edits 2000 1000 [seed]     2000 edits and 1000 reorderings
//   build/release/tests/edits edge 500 100 [seed]  edits of steps that overlap, and of what orders them
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/testing/mutate.hpp"
#include "tessera/program/testing/random_edit.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/session.hpp"

namespace tessera {
namespace {

constexpr unsigned kHangSeconds = 60;
constexpr double kTolerance = 1e-10;
char now_running[512];  // what the alarm tells

void tell_hang(int) {
  const char text[] = "HANGS: ";
  if (write(2, text, sizeof(text) - 1) < 0 || write(2, now_running, std::strlen(now_running)) < 0) _exit(3);
  _exit(2);
}

struct Subject {
  spec::Run run;
  program::Program program;
  std::vector<double> numbers;
  double tolerance = kTolerance;
};

// Losses and norms of two steps, and sums of every bucket's values after them, in an order that the layout
// does not change.
std::vector<double> numbers_of(const spec::Run& run, const program::Program& program) {
  std::vector<double> out;
  std::map<std::string, double> sums;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        train::Session session(train::session_plan(run, program), communicator,
                               train::random_source(run.model));
        const auto finish = [&] {
          const auto report = session.finish_step();
          if (communicator.rank() == 0) out.insert(out.end(), {report.loss, report.gradient_norm});
        };
        const int steps = program.tables.steps_overlap ? 4 : 2;
        for (int step = 0; step < steps; ++step) {
          session.begin_step(step + 1 < steps);
          if (session.is_full()) finish();
        }
        while (session.under_way() > 0) finish();
        for (int rank = 0; rank < communicator.size(); ++rank) {
          session.meet();
          if (rank != communicator.rank()) continue;
          for (auto& bucket : session.buckets()) {
            const auto values = session.shard_of(bucket);
            sums[cat(bucket.table().name, " on ", rank)] = values.sum().item<double>();
            sums[cat(bucket.table().name, " squared on ", rank)] = values.square().sum().item<double>();
          }
        }
        session.meet();
      });
  for (const auto& [name, sum] : sums) out.push_back(sum);
  return out;
}

bool equal(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    return std::abs(x - y) <= tolerance * std::max(1.0, std::max(std::abs(x), std::abs(y)));
  });
}

spec::Run run_of(spec::Schedule schedule, std::int64_t pp, std::int64_t dp, std::int64_t num_micro,
                 bool tied) {
  spec::Run run;
  run.model = {.hidden = 16, .heads = 2, .kv_heads = 1, .ffn = 24, .vocab = 29, .sequence = 4};
  run.model.tied_embeddings = tied;
  run.layout = {.pp = pp, .dp_replicate = dp, .schedule = schedule, .precision = spec::Precision::fp64};
  run.model.layers = std::max<std::int64_t>(2, pp * run.layout.num_virtual() - 1);
  run.training.global_batch = dp * num_micro;
  run.training.warmup_steps = 0;
  return run;
}

Subject subject(const spec::Run& run, double tolerance = kTolerance) {
  const auto program = plan::compile(run);
  return {run, program, numbers_of(run, program), tolerance};
}

std::vector<Subject> subjects() {
  using spec::Schedule;
  std::vector<Subject> out;
  out.push_back(subject(run_of("1f1b"_schedule, 2, 1, 4, false)));
  out.push_back(subject(run_of("1f1b"_schedule, 4, 1, 5, true)));
  out.push_back(subject(run_of("gpipe"_schedule, 3, 2, 3, true)));
  out.push_back(subject(run_of("interleaved"_schedule, 2, 2, 3, false)));
  out.push_back(subject(run_of("zb-h1"_schedule, 3, 1, 4, true)));
  out.push_back(subject(run_of("zb-v"_schedule, 2, 2, 3, true)));
  out.push_back(subject(run_of("dualpipe-v"_schedule, 2, 1, 5, false)));
  out.push_back(subject(run_of("bfs"_schedule, 2, 1, 3, true)));
  spec::Run bare = run_of("zb-h1"_schedule, 2, 2, 3, true);
  bare.layout.overlap = false;
  out.push_back(subject(bare));
  spec::Run sharded = run_of("1f1b"_schedule, 2, 2, 3, true);
  sharded.layout.dp_shard = 2, sharded.layout.dp_replicate = 1;
  for (const std::int64_t zero : {1, 2, 3}) {
    sharded.layout.zero = zero;
    out.push_back(subject(sharded));
  }
  sharded.layout.recompute = spec::Recompute::full;
  sharded.layout.offload = "optimizer,parameters,values";
  sharded.layout.dp_replicate = 2;
  sharded.layout.pp = 1;
  out.push_back(subject(sharded));
  // With gathers and frees; another order of adds rounds otherwise.
  spec::Run half = run_of("zb-h1"_schedule, 2, 2, 3, true);
  half.layout.precision = spec::Precision::bf16;
  out.push_back(subject(half, 1e-2));
  return out;
}

std::vector<Subject> overlapping_subjects() {
  std::vector<Subject> out;
  const auto add = [&](spec::Run run) {
    run.layout.overlap_steps = true;
    run.cluster.link_mbits = 10;  // so slow that priority puts reductions off
    for (const double clip : {0.0, 0.3})
      for (const auto order : {spec::Communication::arrival, spec::Communication::priority}) {
        run.training.clip_norm = clip;
        run.layout.communication = order;
        out.push_back(subject(run));
      }
  };
  add(run_of("1f1b"_schedule, 1, 2, 2, true));
  add(run_of("1f1b"_schedule, 2, 2, 3, true));
  add(run_of("zb-v"_schedule, 2, 1, 3, false));
  add(run_of("pipedream-2bw"_schedule, 3, 1, 4, false));
  spec::Run sharded = run_of("1f1b"_schedule, 1, 1, 2, false);
  sharded.layout.dp_shard = 2, sharded.training.global_batch = 4;
  for (const std::int64_t zero : {1, 2, 3}) {
    sharded.layout.zero = zero;
    add(sharded);
  }
  return out;
}

struct Count {
  int edits = 0, refused = 0, equal = 0, harmless = 0, harmless_refused = 0, wrong = 0;
};

bool gives_reference(const Subject& subject, const program::Program& program, const std::string& what) {
  std::snprintf(now_running, sizeof(now_running), "%s\n", what.c_str());
  alarm(kHangSeconds);
  const bool same = equal(numbers_of(subject.run, program), subject.numbers, subject.tolerance);
  alarm(0);
  if (!same) std::printf("OTHER NUMBERS: %s\n", what.c_str());
  return same;
}

std::string name_of(const Subject& s) {
  return cat(spec::word(s.run.layout.schedule), " pp ", s.run.layout.pp, " dp ", s.run.layout.dp());
}

using Edit = program::RandomEdit (*)(const program::Program&, std::uint64_t);

Count try_edits(const std::vector<Subject>& all, Edit edit_of, int wanted, std::uint64_t seed) {
  Count count;
  for (int i = 0; i < wanted; ++i) {
    const Subject& s = all[static_cast<std::size_t>(i) % all.size()];
    const auto edit = edit_of(s.program, seed + static_cast<std::uint64_t>(i));
    const auto problems = program::check(edit.program);
    ++count.edits;
    count.harmless += edit.is_harmless ? 1 : 0;
    if (!problems.empty()) {
      ++count.refused;
      if (edit.is_harmless) {
        ++count.harmless_refused;
        std::printf("refused although harmless: %s, %s: %s\n", name_of(s).c_str(), edit.what.c_str(),
                    problems.front().text.c_str());
      }
      continue;
    }
    const bool same = gives_reference(
        s, edit.program, cat(name_of(s), ", seed ", seed + static_cast<std::uint64_t>(i), ", ", edit.what));
    count.equal += same ? 1 : 0;
    count.wrong += same ? 0 : 1;
    if (i % 200 == 199) std::fprintf(stderr, "%d of %d edits\n", i + 1, wanted);
  }
  return count;
}

int run(int edits, int reorderings, std::uint64_t seed, bool at_edge) {
  std::signal(SIGALRM, tell_hang);
  const double begin = now_seconds();
  const auto all = at_edge ? overlapping_subjects() : subjects();
  const Count count = try_edits(all, at_edge ? program::edge_edit : program::random_edit, edits, seed);
  std::printf(
      "%d random edits: %d refused with a reason, %d executed with the reference's numbers, %d with others\n",
      count.edits, count.refused, count.equal, count.wrong);
  const double share = count.harmless == 0 ? 0 : 100.0 * count.harmless_refused / count.harmless;
  std::printf("%d of the edits were harmless; %d of these refused (%.1f %%, allowed 5 %%)\n", count.harmless,
              count.harmless_refused, share);
  int accepted = 0, same = 0;
  for (int i = 0; i < reorderings; ++i) {
    const Subject& s = all[static_cast<std::size_t>(i) % all.size()];
    const auto reordered = program::legal_reordering(s.program, seed + static_cast<std::uint64_t>(i));
    const auto problems = program::check(reordered);
    if (!problems.empty()) {
      std::printf("refused reordering %d of %s: %s\n", i, name_of(s).c_str(), problems.front().text.c_str());
      continue;
    }
    ++accepted;
    same += gives_reference(s, reordered, cat(name_of(s), ", reordering ", i)) ? 1 : 0;
    if (i % 200 == 199) std::fprintf(stderr, "%d of %d reorderings\n", i + 1, reorderings);
  }
  std::printf("%d legal reorderings: %d accepted, %d of them gave the reference's numbers (%.0f s)\n",
              reorderings, accepted, same, now_seconds() - begin);
  return count.wrong == 0 && (count.harmless > 0 || edits < 100) && share <= 5 && accepted == reorderings &&
                 same == reorderings
             ? 0
             : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool at_edge = argc > 1 && std::string_view(argv[1]) == "edge";
  if (at_edge) --argc, ++argv;
  const int edits = argc > 1 ? std::atoi(argv[1]) : 2000, reorderings = argc > 2 ? std::atoi(argv[2]) : 1000;
  return tessera::run(edits, reorderings, argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1, at_edge);
}
