// Loads of experts, even and as uneven as they come, by choices that are replayed from a file: each equal to
// one device, and with the calls that the choices ask for. About 25 s of processor time.
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/one_in.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/train/testing/expert_loads.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using collective::Call;
using collective::CallDirection;
using collective::CallKind;

class ExpertLoads : public testing::Test {
 protected:
  TestFolder folder_;
  std::string path_ = folder_.path("choices");
};

TEST_F(ExpertLoads, OfEveryKindEqualOneDevice) {
  OneIn takes(5);
  for (const spec::Layout& layout : expert_layouts())
    for (const LoadCase& c : load_cases()) {
      if (!takes()) continue;
      spec::Run run = load_run(c, layout, path_);
      run.layout.precision = spec::Precision::fp64;
      write_choice_file(run, c.choose);
      if (layout.etp > 1) run.layout.zero = 3, run.layout.recompute = spec::Recompute::full;
      References references;
      const auto found = verify_as_it_is(run, references);
      EXPECT_TRUE(found.passed()) << c.name << "\n" << to_text(found);
    }
}

// Scores of equal weights are all the same: each token goes to the first experts, on every layout. And one
// expert is a layer without a choice.
TEST_F(ExpertLoads, OfEqualScoresAndOfOneExpertEqualOneDevice) {
  for (const spec::Layout& layout : expert_layouts()) {
    spec::Run run = load_run({"ties", {}}, layout, "");
    run.layout.precision = spec::Precision::fp64;
    run.model.init_std = 1e-200;
    collective::run_ranks(4, [&](const collective::Communicator& communicator) {
      Session session(session_plan(run), communicator, random_source(run.model));
      session.step();
      const std::vector<double> expected = {96, 96, 0, 0, 0, 0, 0, 0};
      for (const auto& load : session.expert_loads()) EXPECT_EQ(load.tokens, expected);
    });
    EXPECT_TRUE(verify_on_threads(run).passed());
    run.model.init_std = 0.02;
    run.model.experts = run.model.experts_per_token = 1;
    run.layout.ep = 1;
    const auto one = verify_on_threads(run);
    EXPECT_TRUE(one.passed()) << to_text(one);
  }
}

// Of one sample the global batch is the sequence; of several it is another loss, the same on every layout,
// with ranks that have no samples too.
TEST_F(ExpertLoads, AreBalancedOverTheGlobalBatch) {
  spec::Run run = load_run({"batch", {}}, {}, "");
  run.layout.precision = spec::Precision::fp64;
  run.training.global_batch = 1;
  const auto with = [&](spec::Balance balance) {
    run.model.balance = balance;
    return losses(run, 3);
  };
  EXPECT_EQ(with(spec::Balance::batch), with(spec::Balance::sequence));
  run.training.global_batch = run.layout.micro_batch = 7;
  EXPECT_NE(with(spec::Balance::batch), with(spec::Balance::sequence));
  run.model.balance = spec::Balance::batch;
  std::vector<spec::Layout> all = expert_layouts();
  all.push_back({.dp_replicate = 2, .cp = 2});
  all.push_back({.pp = 2, .dp_shard = 2, .tp = 2, .sequence_parallel = false, .ep = 4, .zero = 2});
  for (spec::Layout layout : all)
    for (const std::int64_t batch : {8, 5}) {
      layout.precision = spec::Precision::fp64;
      layout.micro_batch = 8 / layout.dp();
      run.layout = layout;
      run.training.global_batch = batch;
      References references;
      const auto found = verify_as_it_is(run, references);
      EXPECT_TRUE(found.passed()) << to_text(found);
    }
}

// What a layout recorded is taken by others: losses to the bit by the same, and the same to rounding by
// another. A router that would choose otherwise by then does not.
TEST_F(ExpertLoads, OfARecordedRunAreReplayed) {
  spec::Run run = load_run({"recorded", {}}, expert_layouts()[0], "");
  run.layout.precision = spec::Precision::fp64;
  run.training.global_batch = 7;
  run.training.record_choices = path_;
  const auto losses_of = [](const spec::Run& of) {
    std::vector<double> out;
    collective::run_ranks(static_cast<int>(of.layout.ranks()), [&](const collective::Communicator& me) {
      Session session(session_plan(of), me, random_source(of.model));
      if (!of.training.record_choices.empty()) session.record_choices();
      for (std::int64_t step = 0; step < kReplayedSteps; ++step) {
        const double loss = session.step().loss;
        if (me.rank() == 0) out.push_back(loss);
      }
    });
    return out;
  };
  const auto recorded = losses_of(run);
  std::swap(run.training.record_choices, run.training.replay_choices);
  EXPECT_EQ(losses_of(run), recorded);
  run.layout.recompute = spec::Recompute::full;
  EXPECT_EQ(losses_of(run), recorded);
  for (const std::int64_t tp : {1, 2}) {
    spec::Run other = run;
    other.layout.dp_shard = 1, other.layout.ep = 1, other.layout.tp = tp;
    const auto found = losses_of(other);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], recorded[i], 1e-12);
  }
  run.model.router_scale = 3;  // other values from the second layer on, and so other choices
  run.training.replay_choices = "";
  const auto free = losses_of(run);
  run.training.replay_choices = path_;
  EXPECT_NE(losses_of(run), free);
}

TEST_F(ExpertLoads, OfFilesThatDoNotFitAreRefused) {
  spec::Run run = load_run({"files", {}}, {}, path_);
  const auto complaint = [&](const auto& act) -> std::string {
    try {
      act();
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  const auto read = [&] { ChoiceReader(path_, run.model).read(0, 0); };
  EXPECT_NE(complaint(read).find("cannot"), std::string::npos);
  folder_.write("choices", "no choices");
  EXPECT_NE(complaint(read).find("is no file of choices"), std::string::npos);
  EXPECT_NE(complaint([&] { make_choice_file(path_, choice_shape(run.model, run.training)); }), "");
  std::filesystem::remove(path_);
  make_choice_file(path_, choice_shape(run.model, run.training));
  EXPECT_NE(complaint(read).find("not all choices were recorded"), std::string::npos);
  ChoiceWriter(path_).write(0, 0, 0, std::vector<std::int64_t>(2 * 12, 8));
  EXPECT_NE(complaint(read).find("expert 8 of 8"), std::string::npos);
  EXPECT_NE(complaint([&] { ChoiceReader(path_, run.model).read(99, 0); }).find("sample 99"),
            std::string::npos);
  EXPECT_EQ(complaint([&] { make_choice_file(path_, choice_shape(run.model, run.training)); }), "");
  run.model.layers = 3;
  EXPECT_NE(complaint(read).find("3 layers with experts"), std::string::npos);
  EXPECT_NE(
      complaint([&] { make_choice_file(path_, choice_shape(run.model, run.training)); }).find("remove it"),
      std::string::npos);
}

// Rows sent, times their width, call by call.
TEST_F(ExpertLoads, MoveWhatTheChoicesAskFor) {
  for (const spec::Layout& layout : expert_layouts())
    for (const LoadCase& c : load_cases()) {
      spec::Run run = load_run(c, layout, path_);
      run.model.balance = spec::Balance::none;
      write_choice_file(run, c.choose);
      const std::int64_t row = run.model.hidden * 4;
      collective::run_ranks(4, [&](const collective::Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        Session session(session_plan(run), communicator, random_source(run.model));
        const std::int16_t set = session.program().tables.set_called("experts");
        for (std::int64_t step = 0; step < 2; ++step) {
          session.group(set).tally().reset(true);
          session.step();
          std::vector<std::int64_t> forward, backward, expected_forward, expected_backward;
          for (const Call& call : session.group(set).tally().list())
            if (call.kind == CallKind::all_to_all)
              (call.direction == CallDirection::forward ? forward : backward).push_back(call.bytes);
          for (std::int64_t micro = 0; micro < run.num_micro_batches(); ++micro) {
            const Rows rows = rows_of(run, c.choose, step * run.training.global_batch, micro);
            for (std::int64_t layer = 0; layer < run.model.layers; ++layer) {
              const std::int64_t leaving = rows.leaving[rank], arriving = rows.arriving[rank];
              expected_forward.insert(expected_forward.end(), {leaving * 8, leaving * row, arriving * row});
              expected_backward.insert(expected_backward.end(), {leaving * row, arriving * row});
            }
          }
          EXPECT_EQ(forward, expected_forward) << c.name << ", rank " << rank;
          EXPECT_EQ(backward, expected_backward) << c.name << ", rank " << rank;
        }
      });
    }
}

}  // namespace
}  // namespace tessera::train
