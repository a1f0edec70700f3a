// Compares predicted peaks with counted ones. Larger models on threads as ranks, a process for each case: the
// prediction against the bytes that each rank's account counted, and against the growth of the process's
// resident memory.
//   build/release/tests/peaks            all cases, as Markdown
//   build/release/tests/peaks 3          the first three
//   build/release/tests/peaks --case 7   one, here
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/train/session.hpp"

namespace tessera {
namespace {

using spec::Family;
using spec::Precision;
using spec::Recompute;
using spec::Schedule;

constexpr double kMostOff = 0.03, kMostOffResident = 0.05;

struct Shape {
  const char* name;
  std::int64_t layers, hidden, heads, ffn, vocab;
};
constexpr Shape k44{"44M", 12, 512, 8, 1376, 8192}, k100{"100M", 12, 768, 12, 2048, 10240},
    k180{"180M", 14, 1024, 16, 2432, 10240}, k300{"300M", 20, 1024, 16, 3072, 16384};

struct Case {
  Shape shape;
  Family family = Family::llama;
  Precision precision = Precision::fp32;
  std::int64_t zero = 0, dp_shard = 1, dp_replicate = 1, pp = 1;
  Schedule schedule = "1f1b"_schedule;
  Recompute recompute = Recompute::none;
  std::int64_t sequence = 128, micro_batch = 1, num_micro = 2;
  bool qkv_bias = false, qk_norm = false;  // as Qwen 2 and Qwen 3 have them
  bool has_documents = false;
  std::int64_t cp = 1, cp_heads = 1;
  std::int64_t tp = 1;
  spec::TensorKind kind = spec::TensorKind::d1;
  bool gathers = false;
  bool steps_overlap = false;
  bool by_priority = false;  // over a link of 200 Mbit/s
  std::int64_t servers = 0;
};

constexpr Precision kBf16 = Precision::bf16;
constexpr auto k2d = spec::TensorKind::d2, k25d = spec::TensorKind::d25, k3d = spec::TensorKind::d3;
const Case kCases[] = {
    {.shape = k44, .precision = kBf16, .zero = 3, .dp_shard = 2},
    {.shape = k44, .pp = 2, .num_micro = 4},
    {.shape = k44, .recompute = Recompute::full, .sequence = 256, .micro_batch = 4},
    {.shape = k44, .sequence = 1024, .has_documents = true},
    {.shape = k44},
    {.shape = k44, .precision = kBf16},
    {.shape = k44, .sequence = 512, .micro_batch = 2},
    {.shape = k44, .precision = kBf16, .sequence = 512, .micro_batch = 2},
    {.shape = k44, .family = Family::gpt2, .sequence = 256, .micro_batch = 2},
    {.shape = k44, .family = Family::gpt2, .precision = kBf16, .sequence = 256, .micro_batch = 2},
    {.shape = k44, .dp_replicate = 2},
    {.shape = k44, .zero = 1, .dp_shard = 2},
    {.shape = k44, .zero = 2, .dp_shard = 2},
    {.shape = k44, .zero = 3, .dp_shard = 2},
    {.shape = k44, .precision = kBf16, .zero = 1, .dp_shard = 2, .num_micro = 3},
    {.shape = k44, .precision = kBf16, .zero = 2, .dp_shard = 2, .num_micro = 3},
    {.shape = k44, .precision = kBf16, .zero = 3, .dp_shard = 2, .dp_replicate = 2, .sequence = 64},
    {.shape = k44, .recompute = Recompute::selective, .sequence = 512, .micro_batch = 2},
    {.shape = k44, .precision = kBf16, .recompute = Recompute::full, .sequence = 512, .micro_batch = 4},
    {.shape = k44, .pp = 2, .schedule = "gpipe"_schedule, .sequence = 256, .num_micro = 4},
    {.shape = k44, .pp = 2, .schedule = "zb-v"_schedule, .sequence = 256, .num_micro = 4},
    {.shape = k44,
     .precision = kBf16,
     .pp = 2,
     .schedule = "zb-h1"_schedule,
     .sequence = 256,
     .num_micro = 4},
    {.shape = k44, .zero = 2, .dp_shard = 2, .pp = 2, .num_micro = 3},
    {.shape = k44,
     .precision = kBf16,
     .zero = 3,
     .dp_shard = 2,
     .pp = 2,
     .recompute = Recompute::full,
     .num_micro = 3},
    {.shape = k100, .precision = kBf16, .sequence = 256},
    {.shape = k100, .zero = 1, .dp_shard = 2},
    {.shape = k100, .family = Family::gpt2, .precision = kBf16, .zero = 3, .dp_shard = 2},
    {.shape = k100, .pp = 2, .recompute = Recompute::selective, .num_micro = 4},
    {.shape = k180, .precision = kBf16},
    {.shape = k180, .precision = kBf16, .zero = 3, .dp_shard = 2},
    {.shape = k300, .precision = kBf16, .recompute = Recompute::full},
    {.shape = k44, .sequence = 512, .micro_batch = 2, .qk_norm = true},
    {.shape = k44, .precision = kBf16, .zero = 3, .dp_shard = 2, .sequence = 512, .qk_norm = true},
    {.shape = k44, .precision = kBf16, .sequence = 512, .micro_batch = 2, .qkv_bias = true},
    {.shape = k44, .sequence = 512, .micro_batch = 2, .has_documents = true},
    {.shape = k44, .precision = kBf16, .sequence = 1024, .micro_batch = 2, .has_documents = true},
    {.shape = k44, .recompute = Recompute::full, .sequence = 2048, .has_documents = true},
    {.shape = k44, .precision = kBf16, .recompute = Recompute::full, .sequence = 4096, .has_documents = true},
    {.shape = k44, .recompute = Recompute::selective, .sequence = 1024, .has_documents = true},
    {.shape = k44, .family = Family::gpt2, .sequence = 1024, .has_documents = true},
    {.shape = k44,
     .family = Family::gpt2,
     .precision = kBf16,
     .recompute = Recompute::full,
     .sequence = 2048,
     .has_documents = true},
    {.shape = k44, .precision = kBf16, .zero = 3, .dp_shard = 2, .sequence = 1024, .has_documents = true},
    {.shape = k44, .pp = 2, .sequence = 256, .num_micro = 4, .has_documents = true},
    {.shape = k44, .sequence = 2048, .has_documents = true, .cp = 2},
    {.shape = k44, .sequence = 2048, .has_documents = true, .cp = 2, .cp_heads = 2},
    {.shape = k44, .precision = kBf16, .sequence = 2048, .qk_norm = true, .has_documents = true},
    {.shape = k44, .sequence = 256, .micro_batch = 4, .tp = 4, .kind = k2d},
    {.shape = k44, .sequence = 256, .micro_batch = 4, .tp = 4, .kind = k2d, .gathers = true},
    {.shape = k44, .precision = kBf16, .sequence = 256, .micro_batch = 4, .tp = 4, .kind = k2d},
    {.shape = k44, .family = Family::gpt2, .sequence = 256, .micro_batch = 4, .tp = 4, .kind = k2d},
    {.shape = k44, .sequence = 256, .micro_batch = 4, .tp = 8, .kind = k25d},
    {.shape = k44, .sequence = 256, .micro_batch = 4, .tp = 8, .kind = k3d},
    {.shape = k44, .precision = kBf16, .sequence = 256, .micro_batch = 4, .tp = 8, .kind = k3d},
    {.shape = k44, .family = Family::gpt2, .sequence = 256, .micro_batch = 4, .tp = 8, .kind = k3d},
    {.shape = k44, .recompute = Recompute::full, .sequence = 256, .micro_batch = 8, .tp = 8, .kind = k3d},
    {.shape = k44, .dp_replicate = 2, .steps_overlap = true},
    {.shape = k44, .zero = 1, .dp_shard = 2, .steps_overlap = true},
    {.shape = k44, .zero = 1, .dp_shard = 2, .steps_overlap = true, .by_priority = true},
    {.shape = k44, .precision = kBf16, .zero = 3, .dp_shard = 2, .steps_overlap = true},
    {.shape = k44,
     .pp = 2,
     .schedule = "pipedream-2bw"_schedule,
     .sequence = 256,
     .num_micro = 4,
     .steps_overlap = true},
    {.shape = k44,
     .pp = 3,
     .schedule = "pipedream-2bw"_schedule,
     .recompute = Recompute::full,
     .sequence = 256,
     .num_micro = 4,
     .steps_overlap = true},
    {.shape = k44, .dp_shard = 2, .servers = 1},
    {.shape = k44, .precision = kBf16, .dp_shard = 2, .pp = 2, .num_micro = 3, .servers = 2},
};

constexpr char kDocumentEnd[] = "\n";

// Random tokens; with documents, one of some fifty tokens after the other.
train::Source source_of(const spec::Run& run) {
  constexpr std::size_t kDocumentTokens = 50;
  return [random = train::random_source(run.model), has_documents = !run.data.document_end.empty()](
             auto samples, std::span<std::int64_t> tokens, std::span<std::int64_t> targets, auto documents) {
    random(samples, tokens, targets, documents);
    for (std::size_t i = 0; has_documents && i < tokens.size(); i += kDocumentTokens)
      tokens[i] = kDocumentEnd[0];
  };
}

spec::Run run_of(const Case& c) {
  spec::Run run;
  run.model = {.family = c.family,
               .layers = c.shape.layers,
               .hidden = c.shape.hidden,
               .heads = c.shape.heads,
               .kv_heads = c.shape.heads,
               .ffn = c.shape.ffn,
               .vocab = c.shape.vocab,
               .sequence = c.sequence,
               .qkv_bias = c.qkv_bias,
               .qk_norm = c.qk_norm};
  run.layout.precision = c.precision;
  run.layout.zero = c.zero;
  run.layout.dp_shard = c.dp_shard;
  run.layout.dp_replicate = c.dp_replicate;
  run.layout.servers = c.servers;
  run.layout.pp = c.pp;
  run.layout.cp = c.cp;
  run.layout.cp_heads = c.cp_heads;
  run.layout.tp = c.tp;
  run.layout.tp_kind = c.kind;
  run.layout.tp_gather = c.gathers;
  if (c.steps_overlap) {
    run.layout.overlap_steps = true;
    run.training.clip_norm = 0;
    run.cluster.link_mbits = 200;
    if (c.by_priority) run.layout.communication = spec::Communication::priority;
  }
  if (c.has_documents) run.data.document_end = kDocumentEnd;
  run.layout.schedule = c.schedule;
  run.layout.recompute = c.recompute;
  run.layout.micro_batch = c.micro_batch;
  run.training.global_batch = c.num_micro * run.layout.dp() * c.micro_batch;
  run.cluster.transport = spec::Transport::threads;
  spec::validate(run);
  return run;
}

std::string to_text(const Case& c) {
  std::string out =
      cat(c.shape.name, " ", spec::word(c.family), " ", spec::word(c.precision), ", zero ", c.zero);
  if (c.dp_shard * c.dp_replicate > 1) out += cat(", dp ", c.dp_replicate, " x ", c.dp_shard);
  if (c.pp > 1) out += cat(", pp ", c.pp, " ", spec::word(c.schedule));
  if (c.recompute != Recompute::none) out += cat(", recompute ", spec::word(c.recompute));
  if (c.cp > 1) out += cat(", cp ", c.cp, c.cp_heads > 1 ? cat(" by ", c.cp_heads, " heads") : "");
  if (c.tp > 1) out += cat(", tp ", c.tp, " ", spec::word(c.kind), c.gathers ? ", gathered" : "");
  if (c.servers > 0) out += cat(", servers ", c.servers);
  if (c.steps_overlap) out += cat(", steps overlap", c.by_priority ? " by priority" : "");
  if (c.has_documents) out += ", documents";
  if (c.qkv_bias) out += ", biases of q, k, v";
  if (c.qk_norm) out += ", norms of q, k";
  return out + cat(", ", c.num_micro, " x ", c.micro_batch, " x ", c.sequence, " tokens");
}

std::int64_t most_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) << 10;
  return 0;
}

// What threads and LibTorch's kernels take with their first use is there before: a step of a small model of
// the same layout.
void warm_up(spec::Run run) {
  run.model.layers = 8;
  run.model.hidden = 64, run.model.heads = run.model.kv_heads = 4, run.model.ffn = 128, run.model.vocab = 64;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          train::Session(train::session_plan(run), communicator, source_of(run)).step();
                        });
}

// Prints: predicted and counted bytes of the rank that is farthest off, predicted of all ranks, growth.
int run_case(const Case& c) {
  const spec::Run run = run_of(c);
  const program::Program program = plan::compile(run);
  const auto classes = plan::memory_of(program);
  tensor::use_arena();
  const auto num_ranks = static_cast<std::size_t>(run.layout.ranks());
  std::vector<std::int64_t> counted(num_ranks);
  warm_up(run);
  const std::int64_t before = resident_bytes();
  collective::run_ranks(static_cast<int>(num_ranks), [&](const collective::Communicator& communicator) {
    train::Session session(train::session_plan(run), communicator, source_of(run));
    auto& most = counted[static_cast<std::size_t>(communicator.rank())];
    const int steps = c.steps_overlap ? 4 : 2;
    for (int step = 0; step < steps; ++step) {
      session.begin_step(step + 1 < steps);
      if (session.is_full()) most = std::max(most, session.finish_step().at_peak.total());
    }
    while (session.under_way() > 0) most = std::max(most, session.finish_step().at_peak.total());
  });
  const std::int64_t growth = most_resident_bytes() - before;
  std::int64_t worst_predicted = 0, worst_counted = 1, all = 0;
  double worst = -1;
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    const std::int64_t predicted = classes[program.tables.class_of_rank[rank]].peak_bytes;
    const double off = std::abs(static_cast<double>(predicted) / static_cast<double>(counted[rank]) - 1);
    all += predicted;
    if (off <= worst) continue;
    worst = off, worst_predicted = predicted, worst_counted = counted[rank];
  }
  std::printf("%lld %lld %lld %lld\n", static_cast<long long>(worst_predicted),
              static_cast<long long>(worst_counted), static_cast<long long>(all),
              static_cast<long long>(growth));
  return 0;
}

std::string percent(double ratio) { return cat(ratio >= 1 ? "+" : "", fixed(100 * (ratio - 1), 1), " %"); }

int run_all(const std::string& self, std::size_t wanted) {
  std::printf(
      "| case | predicted MiB | counted MiB | off | all ranks, predicted MiB | resident growth MiB | off "
      "|\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  int failed = 0;
  double worst = 0, worst_resident = 0;
  const std::size_t cases = std::min(wanted, std::size(kCases));
  for (std::size_t i = 0; i < cases; ++i) {
    FILE* child = popen(cat("OMP_NUM_THREADS=1 '", self, "' --case ", i).c_str(), "r");
    TESSERA_CHECK(child, "no process for a case");
    long long predicted = 0, counted = 0, all = 0, growth = 0;
    const bool is_read = std::fscanf(child, "%lld %lld %lld %lld", &predicted, &counted, &all, &growth) == 4;
    const bool is_well = pclose(child) == 0 && is_read;
    if (!is_well) {
      std::printf("| %s | FAILED |\n", to_text(kCases[i]).c_str());
      ++failed;
      continue;
    }
    const double ratio = static_cast<double>(predicted) / static_cast<double>(counted),
                 resident = static_cast<double>(all) / static_cast<double>(growth), mib = 1 << 20;
    const bool within = std::abs(ratio - 1) <= kMostOff && std::abs(resident - 1) <= kMostOffResident;
    worst = std::max(worst, std::abs(ratio - 1));
    worst_resident = std::max(worst_resident, std::abs(resident - 1));
    failed += within ? 0 : 1;
    std::printf("| %s | %.1f | %.1f | %s | %.1f | %.1f | %s |%s\n", to_text(kCases[i]).c_str(),
                static_cast<double>(predicted) / mib, static_cast<double>(counted) / mib,
                percent(ratio).c_str(), static_cast<double>(all) / mib, static_cast<double>(growth) / mib,
                percent(resident).c_str(), within ? "" : " NOT WITHIN");
    std::fflush(stdout);
  }
  std::printf(
      "\n%zu cases, %d not within 3 %% of the count and 5 %% of the growth; worst %.1f %% and %.1f %%\n",
      cases, failed, 100 * worst, 100 * worst_resident);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc == 3 && std::string(argv[1]) == "--case") {
    const std::size_t i = std::strtoull(argv[2], nullptr, 10);
    return i < std::size(kCases) ? run_case(kCases[i]) : 2;
  }
  return run_all(argv[0], argc > 1 ? std::strtoull(argv[1], nullptr, 10) : std::size(kCases));
}
