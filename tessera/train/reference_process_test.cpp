// Do our numbers agree with everybody else's? Against the `transformers` package and torch.optim.AdamW, run on the spot.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/safetensors.hpp"
#include "tessera/collective/threads.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

class Reference : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / cat("tessera-reference-", getpid());
    std::filesystem::create_directories(folder_);
    const std::string command = cat(".venv/bin/python tests/reference/llama.py ", folder_.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    file_ = std::make_unique<checkpoint::Safetensors>((folder_ / "reference.safetensors").string());
  }
  static void TearDownTestSuite() {
    file_.reset();
    std::filesystem::remove_all(folder_);
  }

  static Tensor expected(const std::string& name) {
    const auto& found = file_->tensor(name);
    const auto dtype = found.dtype == "F64" ? at::kDouble : found.dtype == "I64" ? at::kLong : at::kFloat;
    return tensor::view_of(const_cast<std::byte*>(found.bytes.data()), found.shape, dtype);
  }

  // The model of llama.py, trained on its tokens: batch `step` holds samples [step * 4, step * 4 + 4).
  static spec::Run run(spec::Precision precision) {
    spec::Run run;
    run.model = {
        .layers = 3, .hidden = 64, .heads = 8, .kv_heads = 2, .ffn = 160, .vocab = 97, .sequence = 24};
    run.model.weights = (folder_ / "model.safetensors").string();
    run.training = {.steps = 20,
                    .global_batch = 4,
                    .learning_rate = 1e-3,
                    .warmup_steps = 0,
                    .decay = spec::Decay::constant,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .epsilon = 1e-8,
                    .weight_decay = 0.1,
                    .clip_norm = 0.5};
    run.layout.precision = precision;
    run.layout.micro_batch = 2;
    return run;
  }
  static Source source() {
    return [all = expected("tokens")](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                      std::span<std::int64_t> targets) {
      for (std::size_t row = 0; row < samples.size(); ++row) {
        const auto* from = all.const_data_ptr<std::int64_t>() + samples[row] * 25;
        std::copy(from, from + 24, tokens.begin() + static_cast<std::ptrdiff_t>(row * 24));
        std::copy(from + 1, from + 25, targets.begin() + static_cast<std::ptrdiff_t>(row * 24));
      }
    };
  }

  static inline std::filesystem::path folder_;
  static inline std::unique_ptr<checkpoint::Safetensors> file_;
};

double relative_error(const Tensor& found, const Tensor& expected) {
  return found.sub(expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

TEST_F(Reference, LogitsAgreeWithTransformers) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(run(spec::Precision::fp32), alone, source());
    model::Batch batch{.samples = 4,
                       .tokens_T = tensor::empty({96}, at::kLong),
                       .targets_T = tensor::empty({96}, at::kLong)};
    const std::vector<std::uint64_t> samples = {0, 1, 2, 3};
    source()(samples, {batch.tokens_T.mutable_data_ptr<std::int64_t>(), 96},
             {batch.targets_T.mutable_data_ptr<std::int64_t>(), 96});
    const Tensor logits = session.logits(batch);
    const double error = relative_error(logits.view({4, 24, 97}), expected("logits"));
    RecordProperty("logits_relative_error", scientific(error));
    std::printf("logits: relative error %.1e\n", error);
    EXPECT_LT(error, 1e-5);
  });
}

TEST_F(Reference, AllGradientsAgreeWithTransformers) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    auto r = run(spec::Precision::fp32);
    r.training.clip_norm = 0;
    Session session(r, alone, source());
    session.step();
    double worst = 0;
    int tensors = 0;
    for (auto& bucket : session.buckets())
      for (const auto& parameter : bucket.table().parameters) {
        const double error =
            relative_error(bucket.gradient_of(parameter), expected("gradient." + parameter.name));
        EXPECT_LT(error, 1e-5) << parameter.name;
        worst = std::max(worst, error);
        ++tensors;
      }
    EXPECT_EQ(tensors, 3 * 9 + 3);
    std::printf("gradients of %d tensors: worst relative error %.1e\n", tensors, worst);
  });
}

TEST_F(Reference, TwentyAdamWStepsWithClippingAndDecayGroupsAgreeWithPyTorch) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(run(spec::Precision::fp64), alone, source());
    double worst = 0;
    for (int step = 0; step < 20; ++step) {
      const auto report = session.step();
      const double loss = expected("losses").select(0, step).item<double>(),
                   norm = expected("norms").select(0, step).item<double>();
      worst = std::max({worst, std::abs(report.loss / loss - 1), std::abs(report.gradient_norm / norm - 1)});
    }
    for (auto& bucket : session.buckets())
      for (const auto& parameter : bucket.table().parameters)
        worst = std::max(worst,
                         relative_error(bucket.value_of(parameter), expected("trained." + parameter.name)));
    std::printf("20 AdamW steps in fp64: worst relative error %.1e\n", worst);
    EXPECT_LT(worst, 1e-12);
    EXPECT_GT(expected("norms").max().item<double>(), 0.5) << "clipping was never active";
  });
}

}  // namespace
}  // namespace tessera::train
