#include "tessera/train/agreement.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

std::vector<Wishes> agreed_by(const std::vector<Wishes>& wishes, bool beside_steps = false) {
  spec::Run run = small_run(static_cast<std::int64_t>(wishes.size()));
  run.layout.overlap_steps = beside_steps;
  std::vector<Wishes> out(wishes.size());
  collective::run_ranks(static_cast<int>(wishes.size()), [&](const collective::Communicator& communicator) {
    const Session session(session_plan(run), communicator, random_source(run.model));
    const auto rank = static_cast<std::size_t>(communicator.rank());
    Agreement agreement(session);
    agreement.ask(wishes[rank]);
    out[rank] = agreement.answer();
  });
  return out;
}

TEST(Agreement, AllRanksDoWhatAnyOfThemIsAsked) {
  EXPECT_EQ(agreed_by({{}, {}, {}}), (std::vector<Wishes>{{}, {}, {}}));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const Wishes stop{.stop_signal = signal};
    EXPECT_EQ(agreed_by({{}, {}, stop}), (std::vector<Wishes>{stop, stop, stop}));
  }
  const Wishes save{.save = true}, both{.stop_signal = SIGHUP, .save = true};
  EXPECT_EQ(agreed_by({save, {}}), (std::vector<Wishes>{save, save}));
  EXPECT_EQ(agreed_by({save, {.stop_signal = SIGHUP}}), (std::vector<Wishes>{both, both}));
  EXPECT_EQ(agreed_by({both}), (std::vector<Wishes>{both}));
  EXPECT_EQ(agreed_by({both, {}, {}}, true), (std::vector<Wishes>{both, both, both}));
}

TEST(Agreement, OfSeveralSignalsOneIsAgreedOn) {
  const auto found = agreed_by({{.stop_signal = SIGUSR1}, {.stop_signal = SIGTERM}, {}});
  EXPECT_EQ(found, (std::vector<Wishes>{{SIGTERM, false}, {SIGTERM, false}, {SIGTERM, false}}));
}

}  // namespace
}  // namespace tessera::train
