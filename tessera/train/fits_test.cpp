// What may change between two starts of a run, and what may not.
#include "tessera/train/fits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/tools/reshard.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/schema.hpp"
#include "tessera/train/testing/saving_runs.hpp"

namespace tessera::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Fits : public SavingRuns {
 protected:
  std::string complaint(const spec::Run& run, const Accepted& accepted = {}) const {
    return complaint_of([&] { go_on(run, 0, "", accepted); });
  }
  checkpoint::Progress progress_after(std::int64_t step) const {
    return checkpoint::Checkpoint(checkpoint::step_folder(folder_, step).path).manifest().progress;
  }
};

spec::Run with(spec::Run run, const std::string& key, const spec::Value& value) {
  const spec::Key& found = *spec::find_key(key);
  found.set(run, spec::fitted(found, value).value());
  return run;
}

TEST_F(Fits, AnotherModelOfEqualShapesIsRefusedWithBothValues) {
  const spec::Run run = small_run(1);
  go_on(run, 1);
  spec::Run heads = with(run, "model.heads", std::int64_t{2});
  heads.model.kv_heads = 1;  // as many channels of keys as before
  EXPECT_THAT(complaint(heads),
              AllOf(HasSubstr("holds another model"), HasSubstr("model.heads = 2, the checkpoint has 4"),
                    HasSubstr("model.kv_heads = 1, the checkpoint has 2"),
                    HasSubstr("model.head_dim = 16, the checkpoint has 8")));
  const std::pair<const char*, spec::Value> changes[] = {{"model.rope_theta", 500000.0},
                                                         {"model.norm_epsilon", 1e-3},
                                                         {"model.rope_scaling_factor", 8.0},
                                                         {"model.sliding_window", std::int64_t{12}}};
  for (const auto& [key, value] : changes)
    EXPECT_THAT(complaint(with(run, key, value)),
                HasSubstr(cat(key, " = ", spec::value_text(value), ", the checkpoint has ",
                              spec::value_text(spec::find_key(key)->get(run)))));
}

TEST_F(Fits, EveryKeyOfTheModelIsComparedOrNamedHere) {
  const std::set<std::string> not_compared = {
      "model.init_std", "model.dropout", "model.weights", "model.follow_links", "model.balance",
      "model.balance_weight", "model.balance_rate", "model.router_z_weight", "model.capacity_factor",
      // These mean nothing to Llama.
      "model.q_rank", "model.kv_rank", "model.rope_dim", "model.value_dim", "model.attention_scale",
      "model.mtp_layers", "model.mtp_weight"};
  spec::Run run = small_run(1);
  run.model.rope_scaling_factor = 2;
  run.model.experts = 4;
  go_on(run, 1);
  for (const spec::Key& key : spec::schema()) {
    if (key.section != "model") continue;
    const spec::Value before = key.get(run);
    spec::Value after = before;
    if (auto* truth = std::get_if<bool>(&after)) *truth = !*truth;
    if (auto* whole = std::get_if<std::int64_t>(&after)) *whole += key.full() == "model.mtp_layers" ? 1 : 4;
    if (auto* number = std::get_if<double>(&after)) *number += 0.25;
    if (key.kind == spec::Kind::word) after = key.words.back();
    if (key.kind == spec::Kind::text) continue;
    spec::Run other = run;
    key.set(other, after);
    // Compared as the stored run file has it; most such models can't be built beside this one.
    const std::string config = spec::to_text(other);
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session session(session_plan(run), alone, random_source(run.model));
      const std::string path = checkpoint::step_folder(folder_, 1).path;
      checkpoint::Checkpoint saved(path);
      auto manifest = saved.manifest();
      manifest.config = config;
      const std::string text = checkpoint::to_text(manifest);
      std::ofstream(path + "/manifest.json") << text;
      const std::string told =
          complaint_of([&] { check_fits(session, run, checkpoint::Checkpoint(path), std::nullopt, {}); });
      EXPECT_EQ(told.find(key.full()) == std::string::npos, not_compared.contains(key.full()))
          << key.full() << ": " << told;
    });
  }
}

TEST_F(Fits, WhatMeansNothingInAModelMayDiffer) {
  spec::Run llama = small_run(1), gpt2 = small_gpt2_run(1);
  go_on(llama, 1);
  EXPECT_THAT(complaint(with(llama, "model.head_dim", std::int64_t{8})), IsEmpty());
  EXPECT_THAT(complaint(with(llama, "model.rope_original_context", std::int64_t{99})), IsEmpty());
  std::filesystem::remove_all(folder_);
  go_on(gpt2, 1);
  EXPECT_THAT(complaint(with(gpt2, "model.rope_theta", 7.0)), IsEmpty());
}

TEST_F(Fits, HowARunIsComputedMayDiffer) {
  const spec::Run run = small_run(1);
  go_on(run, 1);
  const std::pair<const char*, spec::Value> changes[] = {{"training.steps", std::int64_t{7}},
                                                         {"data.bytes_as_tokens", true},
                                                         {"model.follow_links", true},
                                                         {"training.learning_rate", 0.5},
                                                         {"training.decay", std::string("wsd")},
                                                         {"training.beta2", 0.5},
                                                         {"training.clip_norm", 0.0},
                                                         {"model.dropout", 0.5},
                                                         {"model.init_std", 0.5},
                                                         {"layout.dp_replicate", std::int64_t{2}},
                                                         {"layout.precision", std::string("bf16")},
                                                         {"layout.micro_batch", std::int64_t{1}}};
  for (const auto& [key, value] : changes) EXPECT_THAT(complaint(with(run, key, value)), IsEmpty()) << key;
}

TEST_F(Fits, OtherSamplesAreRefusedWithBothValuesUnlessAccepted) {
  const spec::Run run = small_run(1);
  go_on(run, 1);
  const std::pair<const char*, spec::Value> changes[] = {{"data.seed", std::int64_t{5}},
                                                         {"data.document_end", std::string("\n")},
                                                         {"training.global_batch", std::int64_t{4}},
                                                         {"model.sequence", std::int64_t{10}}};
  for (const auto& [key, value] : changes) {
    const spec::Run other = with(run, key, value);
    EXPECT_THAT(complaint(other),
                AllOf(HasSubstr("was trained on other samples"),
                      HasSubstr(cat(key, " = ", spec::value_text(value), ", the checkpoint has ",
                                    spec::value_text(spec::find_key(key)->get(run)))),
                      HasSubstr("--accept-changed-data")));
    EXPECT_THAT(complaint(other, {.changed_data = true}), IsEmpty());
  }
}

TEST_F(Fits, ADataFileIsToldByItsContentAndNotByItsName) {
  std::filesystem::create_directories(folder_);
  const auto made = [&](const char* name, std::size_t bytes, std::size_t changed) {
    std::string text(bytes, 'a');
    if (changed < bytes) text[changed] = 'b';
    std::ofstream(folder_ + name) << text;
    return identity_of(folder_ + name);
  };
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{1} << 20}) {
    const auto plain = made("/plain", bytes, bytes);
    EXPECT_EQ(made("/moved", bytes, bytes), plain);
    for (const std::size_t changed : {std::size_t{0}, bytes - 1})
      EXPECT_NE(made("/other", bytes, changed), plain);
    EXPECT_NE(made("/longer", bytes + 1, bytes + 1), plain);
  }
}

TEST_F(Fits, AnotherOptimizerIsRefusedUnlessItIsReset) {
  spec::Run adamw = small_run(2), plain = adamw, heavy = adamw;
  plain.training.optimizer = heavy.training.optimizer = spec::Optimizer::sgd;
  heavy.training.momentum = 0.9;
  const spec::Run runs[] = {adamw, plain, heavy};
  const char* names[] = {"adamw", "sgd with momentum 0", "sgd with momentum 0.9"};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) {
      if (a == b) continue;
      std::filesystem::remove_all(folder_);
      go_on(runs[a], 3);
      EXPECT_THAT(complaint(runs[b]), AllOf(HasSubstr(cat("training.optimizer is ", names[b], ", but")),
                                            HasSubstr(cat("holds the state of ", names[a], "."))));
      EXPECT_EQ(checkpoint::step_folders(folder_).size(), 1u);
      go_on(runs[b], 2, "", {.reset_optimizer = true});
      EXPECT_EQ(progress_after(5).step, 5);
      EXPECT_EQ(progress_after(5).reset_after, 3);
      EXPECT_THAT(complaint(runs[b]), IsEmpty()) << "from now on it is the run's own";
      EXPECT_THAT(complaint(runs[b], {.reset_optimizer = true}), IsEmpty());
    }
}

// AdamW's moments begin at zero, and so does the count by which they are corrected: the first update is of
// the size of the learning rate, however many steps are behind.
TEST_F(Fits, AResetOptimizerBeginsAsAtItsFirstUpdateAndGoesOnBitForBit) {
  spec::Run plain = small_run(1);
  plain.training.optimizer = spec::Optimizer::sgd;
  plain.training.weight_decay = 0;
  spec::Run adamw = plain;
  adamw.training.optimizer = spec::Optimizer::adamw;
  adamw.training.decay = spec::Decay::constant;
  go_on(plain, 6);
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(adamw), alone, random_source(adamw.model));
    resume(session, adamw, {.folder = folder_, .accepted = {.reset_optimizer = true}});
    const auto before = session.shard_of(session.buckets().front()).clone();
    session.step();
    const auto moved = session.shard_of(session.buckets().front()).sub(before).abs().max().item<double>();
    EXPECT_NEAR(moved, adamw.training.learning_rate, 0.01 * adamw.training.learning_rate);
  });
  const auto all = go_on(adamw, 4, checkpoint::step_folder(folder_, 6).path, {.reset_optimizer = true});
  std::filesystem::remove_all(checkpoint::step_folder(folder_, 10).path);
  auto parts = go_on(adamw, 2, "", {.reset_optimizer = true});
  const auto rest = go_on(adamw, 2);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, all);
}

// Its folder may be on a disk that is not there at the moment.
TEST_F(Fits, RanksThatAreStartedAgainDoNotBeginAnewWhereACheckpointIsKnown) {
  const spec::Run run = small_run(1);
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, random_source(run.model));
    EXPECT_EQ(resume(session, run, {.folder = folder_}).step, 0);
    EXPECT_THAT(complaint_of([&] { resume(session, run, {.folder = folder_, .known_step = 20}); }),
                HasSubstr("the checkpoint of step 20, which was in "));
    EXPECT_EQ(resume(session, run, {.folder = folder_, .from = "none", .known_step = 20}).step, 0);
  });
}

TEST_F(Fits, WeightsAloneAreNoNewestCheckpointOfARun) {
  const spec::Run run = small_run(1);
  go_on(run, 3);
  const std::string from = checkpoint::step_folder(folder_, 3).path,
                    weights = checkpoint::step_folder(folder_, 9).path;
  {
    checkpoint::Checkpoint saved(from);
    checkpoint::reshard(saved, weights, {.num_ranks = 1, .parameters_only = true});
  }
  EXPECT_THAT(complaint(run), HasSubstr("step-00000009 holds weights alone"));
}

// The second rank brings what cancels the first's complaint: all seem to agree that the checkpoint opens.
TEST_F(Fits, AFalseSumEndsTheRankWithAWordAndNotWithACrash) {
  const spec::Run run = small_run(2);
  go_on(run, 1);
  const std::string path = checkpoint::step_folder(folder_, 1).path;
  std::filesystem::resize_file(path + "/manifest.json", 100);
  for (const double lie : {-1.0, 0.5, 7.0, std::nan("")})
    collective::run_ranks(2, [&](const collective::Communicator& communicator) {
      Session session(session_plan(run), communicator, random_source(run.model));
      if (communicator.rank() == 1) return static_cast<void>(session.sum(lie));
      EXPECT_THROW(resume(session, run, {.folder = folder_, .from = path, .rank = 0}), PeerLost) << lie;
    });
}

}  // namespace
}  // namespace tessera::train
