// What does saving cost a run that goes on? Steps of one rank with a checkpoint being written beside them, and without, in
// turns.
//   build/release/saving_cost RUN.toml [PAIRS] [FOLDER]      e.g. bench/step-44m.toml 8
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/collective/threads.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/train/saver.hpp"

namespace tessera {
namespace {

struct Costs {
  std::vector<double> beside, alone, ratios, copying, writing;  // seconds
};

double seconds_of(const std::function<void()>& act) {
  const double begin = now_seconds();
  act();
  return now_seconds() - begin;
}

Costs measured(const spec::Run& run, int pairs, const std::string& folder) {
  Costs costs;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    train::Session session(run, alone, train::random_source(run.model));
    for (int i = 0; i < 2; ++i) session.step();
    for (int pair = 0; pair < pairs; ++pair) {
      train::Snapshot copy;
      costs.copying.push_back(seconds_of([&] { copy.take(session); }));
      train::Saver saver(run, session, {.folder = folder});
      const double begin = now_seconds();
      saver.after_step(1);  // the copy and the start of the writer
      std::vector<double> beside;
      do {
        beside.push_back(seconds_of([&] { session.step(); }));
      } while (saver.is_writing() && beside.size() < 8);
      saver.finish(1);
      costs.writing.push_back(now_seconds() - begin);
      const double with = median(beside), without = seconds_of([&] { session.step(); });
      costs.beside.push_back(with);
      costs.alone.push_back(without);
      costs.ratios.push_back(with / without);
      std::fprintf(stderr, "pair %d of %d: %.3f s beside a writer, %.3f s alone\n", pair + 1, pairs, with,
                   without);
    }
  });
  return costs;
}

int run(const std::string& file, int pairs, const std::string& folder) {
  tensor::use_arena();
  tensor::set_threads(1);
  spec::Run run = spec::load(file);
  run.checkpoint = {.every = 1, .keep_last = 1};
  const Costs costs = measured(run, pairs, folder);
  std::filesystem::remove_all(folder);
  std::printf(
      "| step beside a writer | step alone | ratio | copy | copy, writing and commit "
      "|\n|---|---|---|---|---|\n");
  std::printf("| %.3f s | %.3f s | %.3f | %.3f s | %.2f s |\n", median(costs.beside), median(costs.alone),
              median(costs.ratios), median(costs.copying), median(costs.writing));
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: saving_cost RUN.toml [PAIRS] [FOLDER]\n");
    return 2;
  }
  const std::string folder =
      argc > 3 ? argv[3]
               : (std::filesystem::temp_directory_path() / tessera::cat("saving-", getpid())).string();
  return tessera::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 8, folder);
}
