// Does every schedule equal one device? verify in fp64 over schedules x stages x data parallelism x micro-batches x tied
// embeddings x even and uneven stages, half of them Llama and half GPT-2, with threads as ranks.
//   build/release/tests/pipelines             all cases, and a summary by schedule as Markdown
//   build/release/tests/pipelines 200 [seed]  so many of them, drawn by the seed
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
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
};

constexpr spec::Schedule kSchedules[] = {spec::Schedule::gpipe,       spec::Schedule::f1b1,
                                         spec::Schedule::interleaved, spec::Schedule::zb_h1,
                                         spec::Schedule::zb_v,        spec::Schedule::dualpipe_v,
                                         spec::Schedule::bfs,         spec::Schedule::automatic};

std::vector<Case> all_cases() {
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
  run.layout.dp_replicate = c.dp;
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
  return run;
}

std::string to_text(const Case& c) {
  return cat(spec::word(c.schedule), " pp ", c.pp, " dp ", c.dp, " micro-batches ", c.num_micro,
             c.tied ? " tied" : " untied", c.even ? " even" : " uneven");
}

struct Tally {
  int cases = 0, passed = 0;
  double worst = 0;
};

int run(std::size_t wanted, std::uint64_t seed) {
  const auto cases = all_cases();
  std::vector<std::size_t> chosen(cases.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  if (wanted < chosen.size()) {
    for (std::size_t i = 0; i < wanted; ++i)
      std::swap(chosen[i], chosen[i + random_bits(seed, 1, i) % (chosen.size() - i)]);
    chosen.resize(wanted);
  }
  std::map<spec::Schedule, Tally> tallies;
  const double begin = now_seconds();
  std::size_t done = 0;
  for (const std::size_t i : chosen) {
    Tally& tally = tallies[cases[i].schedule];
    const auto found = train::verify_on_threads(run_of(cases[i], i));
    ++tally.cases;
    tally.passed += found.passed() ? 1 : 0;
    tally.worst = std::max(tally.worst, found.worst_relative_error);
    if (!found.passed())
      std::printf("NOT EQUAL: %s\n%s\n", to_text(cases[i]).c_str(), to_text(found).c_str());
    if (++done % 100 == 0) {
      const double spent = now_seconds() - begin;
      std::fprintf(stderr, "%zu of %zu cases, %.0f s, %.0f s left\n", done, chosen.size(), spent,
                   spent / static_cast<double>(done) * static_cast<double>(chosen.size() - done));
    }
  }
  Tally all;
  std::printf("| schedule | cases | equal | worst relative error |\n|---|---|---|---|\n");
  for (const auto& [schedule, tally] : tallies) {
    std::printf("| %s | %d | %d | %.1e |\n", spec::word(schedule).c_str(), tally.cases, tally.passed,
                tally.worst);
    all = {all.cases + tally.cases, all.passed + tally.passed, std::max(all.worst, tally.worst)};
  }
  std::printf("| all | %d | %d | %.1e |\n\n%d of %d cases equal one device within 1e-10 (%.0f s)\n",
              all.cases, all.passed, all.worst, all.passed, all.cases, now_seconds() - begin);
  return all.passed == all.cases ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::size_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : ~std::size_t{0};
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  return tessera::run(wanted, seed);
}
