// Does every layout equal one device? verify in fp64 with threads as ranks, half of the cases Llama and half GPT-2.
//   build/release/tests/layouts pipelines             schedules x stages x data parallelism x micro-batches x tied embeddings
//                                                     x even and uneven stages, and a summary by schedule as Markdown
//   build/release/tests/layouts memory                schedules x ZeRO 0-3 x recomputation x stages x data parallelism (of 4:
//                                                     hybrid shard) x micro-batches x offload
//   build/release/tests/layouts memory 300 [seed]     so many of them, drawn by the seed
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/spec/words.hpp"
#include "tessera/train/verify.hpp"

namespace tessera {
namespace {

struct Case {
  spec::Schedule schedule;
  std::int64_t pp, dp, num_micro;
  bool tied, even;
  std::int64_t zero = 0;
  spec::Recompute recompute = spec::Recompute::none;
  bool offload = false;
};

constexpr spec::Schedule kSchedules[] = {spec::Schedule::gpipe,       spec::Schedule::f1b1,
                                         spec::Schedule::interleaved, spec::Schedule::zb_h1,
                                         spec::Schedule::zb_v,        spec::Schedule::dualpipe_v,
                                         spec::Schedule::bfs,         spec::Schedule::automatic};

std::vector<Case> pipeline_cases() {
  std::vector<Case> out;
  for (const auto schedule : kSchedules)
    for (const std::int64_t pp : {1, 2, 3, 4})
      for (const std::int64_t dp : {1, 2}) {
        std::vector<std::int64_t> micros = {1, pp, 2 * pp, 2 * pp + 1};
        micros.erase(std::unique(micros.begin(), micros.end()), micros.end());
        for (const std::int64_t num_micro : micros)
          for (const bool tied : {false, true})
            for (const bool even : {false, true}) out.push_back({schedule, pp, dp, num_micro, tied, even});
      }
  return out;
}

// Tied embeddings and uneven stages are drawn by a case's number.
std::vector<Case> memory_cases() {
  std::vector<Case> out;
  for (const auto schedule : kSchedules)
    for (const std::int64_t zero : {0, 1, 2, 3})
      for (const auto recompute : {spec::Recompute::none, spec::Recompute::full, spec::Recompute::selective})
        for (const std::int64_t pp : {1, 2, 3, 4})
          for (const std::int64_t dp : {1, 2, 4})
            for (const std::int64_t num_micro : {pp, 2 * pp + 1})
              for (const bool offload : {false, true}) {
                const std::uint64_t drawn = random_bits(9, out.size(), 0);
                out.push_back({schedule, pp, dp, num_micro, drawn % 2 == 1, drawn / 2 % 2 == 1, zero,
                               recompute, offload});
              }
  return out;
}

// What a case leaves open of its memory, drawn by its number.
void choose_memory(const Case& c, std::uint64_t number, spec::Layout& layout) {
  const auto draw = [&](std::uint64_t i, std::int64_t below) {
    return static_cast<std::int64_t>(random_bits(10, number, i) % static_cast<std::uint64_t>(below));
  };
  layout.zero = c.zero;
  layout.recompute = c.recompute;
  layout.recompute_pieces = draw(0, 2) == 0 ? "attention" : "attention,norm+up";
  layout.reduce_every = draw(1, 3);
  layout.keep_mib = draw(2, 4) == 0 ? 1 : 0;
  layout.prefetch = draw(3, 3);
  layout.overlap = draw(4, 4) != 0;
  if (!c.offload) return;
  layout.offload =
      c.recompute == spec::Recompute::none ? "optimizer,parameters" : "optimizer,parameters,values";
  if (draw(5, 2) == 0) layout.offload_folder = std::filesystem::temp_directory_path().string();
}

// Two units a stage, or as uneven as the case's number draws them.
spec::Run run_of(const Case& c, std::uint64_t number) {
  spec::Run run;
  run.model = {.hidden = 16, .heads = 4, .kv_heads = 2, .ffn = 24, .vocab = 37, .sequence = 6};
  run.model.tied_embeddings = c.tied;
  if (random_bits(8, number, 0) % 2 == 1) {  // half of the cases
    run.model.family = spec::Family::gpt2;
    run.model.kv_heads = run.model.heads;
  }
  run.layout.pp = c.pp;
  // Of two sharded ranks, or of replicas of them; without ZeRO they are plain data parallel ranks.
  run.layout.dp_shard = std::min<std::int64_t>(c.dp, 2);
  run.layout.dp_replicate = c.dp / run.layout.dp_shard;
  run.layout.schedule = c.schedule;
  const std::int64_t num_stages = c.pp * run.layout.num_virtual();
  std::int64_t units = 0;
  std::vector<std::string> counts;
  for (std::int64_t stage = 0; stage < num_stages; ++stage) {
    const auto drawn =
        static_cast<std::int64_t>(random_bits(7, number, static_cast<std::uint64_t>(stage)) % 4);
    std::int64_t count = c.even ? 2 : std::max<std::int64_t>(1, drawn);
    if (stage + 1 == num_stages && units + count < 3) count = 3 - units;  // embedding, a block, head
    units += count;
    counts.push_back(cat(count));
  }
  run.layout.stages = join(counts, ",");
  run.model.layers = units - 2;
  // The last micro-batch is short on one rank.
  run.layout.micro_batch = 2;
  run.training.global_batch = c.dp * 2 * c.num_micro - (c.num_micro > 1 ? 1 : 0);
  choose_memory(c, number, run.layout);
  return run;
}

std::string to_text(const Case& c) {
  return cat(spec::word(c.schedule), " pp ", c.pp, " dp ", c.dp, " micro-batches ", c.num_micro,
             c.tied ? " tied" : " untied", c.even ? " even" : " uneven", " zero ", c.zero, " recompute ",
             spec::word(c.recompute), c.offload ? " offload" : "");
}

struct Tally {
  int cases = 0, passed = 0;
  double worst = 0;
  void add(const Tally& other) {
    cases += other.cases, passed += other.passed;
    worst = std::max(worst, other.worst);
  }
};

// Each case counts in one row of every kind of row: of its schedule, its ZeRO stage and so on.
using Rows = std::map<std::pair<std::size_t, std::string>, Tally>;  // by kind and name

std::vector<std::size_t> chosen_of(std::size_t num_cases, std::size_t wanted, std::uint64_t seed) {
  std::vector<std::size_t> chosen(num_cases);
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  if (wanted >= chosen.size()) return chosen;
  for (std::size_t i = 0; i < wanted; ++i)
    std::swap(chosen[i], chosen[i + random_bits(seed, 1, i) % (chosen.size() - i)]);
  chosen.resize(wanted);
  return chosen;
}

Tally tally_of(const Case& c, std::size_t number) {
  Tally out{.cases = 1};
  try {
    const auto found = train::verify_on_threads(run_of(c, number));
    out.passed = found.passed() ? 1 : 0;
    out.worst = found.worst_relative_error;
    if (!found.passed()) std::printf("NOT EQUAL: %s\n%s\n", to_text(c).c_str(), to_text(found).c_str());
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n%s\n", to_text(c).c_str(), error.what());
  }
  std::fflush(stdout);
  return out;
}

int run(const std::vector<Case>& cases, std::size_t wanted, std::uint64_t seed) {
  const auto chosen = chosen_of(cases.size(), wanted, seed);
  Rows rows;
  const double begin = now_seconds();
  std::size_t done = 0;
  for (const std::size_t i : chosen) {
    const Case& c = cases[i];
    const Tally tally = tally_of(c, i);
    std::vector<std::string> names = {spec::word(c.schedule)};
    if (cases.front().zero != cases.back().zero)
      names.insert(names.end(),
                   {cat("zero ", c.zero), cat("recompute ", spec::word(c.recompute)), cat("pp ", c.pp),
                    c.dp == 4 ? "dp 4 (2 x 2)" : cat("dp ", c.dp), c.offload ? "offload" : "no offload"});
    names.push_back("all");
    for (std::size_t kind = 0; kind < names.size(); ++kind) rows[{kind, names[kind]}].add(tally);
    if (++done % 100 == 0) {
      const double spent = now_seconds() - begin;
      std::fprintf(stderr, "%zu of %zu cases, %.0f s, %.0f s left\n", done, chosen.size(), spent,
                   spent / static_cast<double>(done) * static_cast<double>(chosen.size() - done));
    }
  }
  std::printf("| | cases | equal | worst relative error |\n|---|---|---|---|\n");
  for (const auto& [name, tally] : rows)
    std::printf("| %s | %d | %d | %.1e |\n", name.second.c_str(), tally.cases, tally.passed, tally.worst);
  const Tally& all = rows.rbegin()->second;
  std::printf("\n%d of %d cases equal one device within 1e-10 (%.0f s)\n", all.passed, all.cases,
              now_seconds() - begin);
  return all.passed == all.cases ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string matrix = argc > 1 ? argv[1] : "";
  const std::size_t wanted = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : ~std::size_t{0};
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (matrix == "pipelines") return tessera::run(tessera::pipeline_cases(), wanted, seed);
  if (matrix == "memory") return tessera::run(tessera::memory_cases(), wanted, seed);
  std::fprintf(stderr, "usage: layouts pipelines|memory [COUNT [SEED]]\n");
  return 2;
}
