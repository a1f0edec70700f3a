// Measures what saving costs a running job: steps of one rank while a checkpoint is being written and without
// one, alternately.
//   build/release/saving_cost RUN.toml [PAIRS] [FOLDER]      e.g. bench/step-44m.toml 8
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/train/saver.hpp"

namespace tessera {
namespace {

struct Costs {
  std::vector<double> alone, copying, writing;  // seconds
  std::vector<double> beside, with_copy;        // over the step alone
};

double seconds_of(const std::function<void()>& act) {
  const double begin = now_seconds();
  act();
  return now_seconds() - begin;
}

// The copy's memory is there from the second save on, so the first is not counted.
Costs measured(const spec::Run& run, int pairs, const std::string& folder) {
  Costs costs;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    train::Session session(train::session_plan(run), alone, train::random_source(run.model));
    train::Saver saver(run, session, {.folder = folder});
    for (int pair = 0; pair <= pairs; ++pair) {
      const double without = seconds_of([&] { session.step(); });
      const double begin = now_seconds();
      const double copying = seconds_of([&] { saver.after_step(pair + 1); });
      const double with = seconds_of([&] { session.step(); });
      saver.finish(pair + 1);
      if (pair == 0) continue;
      costs.writing.push_back(now_seconds() - begin);
      costs.alone.push_back(without);
      costs.copying.push_back(copying);
      costs.beside.push_back(with / without);
      costs.with_copy.push_back((with + copying) / without);
      std::fprintf(stderr, "pair %d of %d: %.3f s alone, %.3f s to copy, %.3f s beside the writer\n", pair,
                   pairs, without, copying, with);
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
      "| step without saving | copy | step beside the writer, ratio | with the copy | copy, writing and "
      "commit |\n"
      "|---|---|---|---|---|\n");
  std::printf("| %.3f s | %.3f s | %.3f | %.3f | %.2f s |\n", median(costs.alone), median(costs.copying),
              median(costs.beside), median(costs.with_copy), median(costs.writing));
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
