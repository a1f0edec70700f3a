// Local steps beside the same written out in PyTorch: torch.optim inside and outside. About 25 s.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/train/testing/apart.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

class LocalStepsReference : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::create_directories(root());
    const std::string command = cat(".venv/bin/python tests/reference/local_steps.py ", root().string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root()); }
  static std::filesystem::path root() {
    return std::filesystem::temp_directory_path() / cat("tessera-local-steps-", getpid());
  }

  Tensor expected(const std::string& name) const {
    const auto& found = file_.tensor(name);
    return tensor::view_of(const_cast<std::byte*>(found.bytes.data()), found.shape,
                           found.dtype == "I64" ? at::kLong : at::kDouble);
  }

  Source source() const {
    return [all = expected("tokens")](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                      std::span<std::int64_t> targets, std::span<std::int64_t>) {
      for (std::size_t row = 0; row < samples.size(); ++row) {
        const auto* from = all.const_data_ptr<std::int64_t>() + samples[row] * 9;
        std::copy(from, from + 8, tokens.begin() + static_cast<std::ptrdiff_t>(row * 8));
        std::copy(from + 1, from + 9, targets.begin() + static_cast<std::ptrdiff_t>(row * 8));
      }
    };
  }

  // The worst relative error of losses and weights.
  double compare(std::int64_t steps, bool is_adamw, bool is_nesterov, std::int64_t delay,
                 spec::Layout layout) const {
    spec::Run run;
    run.model = {.layers = 1, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 20, .sequence = 8};
    run.model.weights = (root() / "model.safetensors").string();
    run.training = {
        .steps = 20 * steps,
        .global_batch = 4,
        .optimizer = is_adamw ? spec::Optimizer::adamw : spec::Optimizer::sgd,
        .learning_rate = 1e-3,
        .warmup_steps = 0,
        .decay = spec::Decay::constant,
        .epsilon = 1e-4,
        .weight_decay = is_adamw ? 0.1 : 0,
        .clip_norm = 0,
        .local_steps = steps,
        .outer_optimizer = is_nesterov ? spec::OuterOptimizer::nesterov : spec::OuterOptimizer::average,
        .outer_delay = delay};
    run.layout = layout;
    run.layout.dp_replicate = 2;
    run.layout.precision = spec::Precision::fp64;
    const std::string name = cat(steps, "-", is_adamw ? "adamw" : "sgd", "-",
                                 is_nesterov ? "nesterov" : "average", "-", delay, ".");
    double worst = 0;
    const auto found = train_apart(run, source(), [&](const Replicas& replicas, Session& session) {
      if (!replicas.is_first() || layout.tp > 1 || layout.zero > 0) return;
      for (auto& bucket : session.buckets())
        for (const auto& parameter : bucket.table().parameters) {
          const Tensor wanted = expected(name + parameter.name),
                       mine = shard::parameter_in(bucket.shard(), parameter);
          const double error = mine.sub(wanted.reshape(mine.sizes())).abs().max().item<double>() /
                               wanted.abs().max().item<double>();
          static std::mutex mutex;
          const std::scoped_lock lock(mutex);
          worst = std::max(worst, error);
        }
    });
    for (std::size_t i = 0; i < found.losses.size(); ++i)
      worst = std::max(
          worst,
          std::abs(found.losses[i] /
                       expected(name + "losses").select(0, static_cast<std::int64_t>(i)).item<double>() -
                   1));
    std::printf("%s worst relative error %.1e\n", name.c_str(), worst);
    return worst;
  }

  checkpoint::Safetensors file_{(root() / "reference.safetensors").string()};
};

TEST_F(LocalStepsReference, OfOneAreThoseOfPyTorch) {
  EXPECT_LT(compare(1, false, false, 0, {}), 1e-12);
  EXPECT_LT(compare(1, true, true, 0, {}), 1e-12);
}

TEST_F(LocalStepsReference, OfFiveAreThoseOfPyTorchInAnyLayout) {
  for (const spec::Layout& layout : {spec::Layout{}, spec::Layout{.pp = 2}, spec::Layout{.tp = 2},
                                     spec::Layout{.dp_shard = 2, .zero = 3}}) {
    EXPECT_LT(compare(5, true, false, 0, layout), 1e-12);
    EXPECT_LT(compare(5, true, true, 0, layout), 1e-12);
    EXPECT_LT(compare(5, true, true, 2, layout), 1e-12);
  }
}

TEST_F(LocalStepsReference, OfFiftyAreThoseOfPyTorch) {
  EXPECT_LT(compare(50, true, true, 0, {}), 1e-12);
  EXPECT_LT(compare(50, false, false, 7, {}), 1e-12);
}

}  // namespace
}  // namespace tessera::train
