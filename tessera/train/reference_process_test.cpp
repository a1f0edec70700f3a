// Do our numbers agree with everybody else's? Against the `transformers` package and torch.optim.AdamW, run
// on the spot.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

// A model of the world: the script that computes with it, its kind there, and what it is here.
struct Case {
  std::string name, script, kind;
  spec::Model model;
  int num_tensors;
};

spec::Model model_of(spec::Family family, std::int64_t kv_heads, bool tied) {
  return {.family = family,
          .layers = 3,
          .hidden = 64,
          .heads = 8,
          .kv_heads = kv_heads,
          .ffn = 160,
          .vocab = 97,
          .sequence = 24,
          .tied_embeddings = tied};
}

spec::Model related_model(const std::string& kind) {
  spec::Model model = model_of(spec::Family::llama, 2, kind == "qwen2");
  model.qkv_bias = kind == "qwen2";
  model.qk_norm = kind == "qwen3" || kind == "qwen3_moe";
  if (kind == "qwen3" || kind == "qwen3_moe") model.head_dim = 12;
  if (kind == "mixtral") model.experts = 5;
  if (kind == "deepseek_mtp") model.mtp_layers = 1;
  if (kind.starts_with("deepseek")) {
    model.family = spec::Family::deepseek;
    model.kv_heads = model.heads;
    model.q_rank = 24, model.kv_rank = 16, model.head_dim = 20, model.rope_dim = 8, model.value_dim = 10;
    model.experts = 8, model.shared_experts = 1, model.expert_ffn = 40, model.dense_layers = 1;
    model.router_scores = spec::RouterScores::sigmoid;
    model.router_groups = 4, model.router_groups_kept = 2, model.router_scale = 2.5;
    model.balance = spec::Balance::bias;
  }
  if (kind == "qwen3_moe") {
    model.experts = 6;
    model.experts_per_token = 3;
    model.expert_ffn = 40;
    model.router_normalizes = false;
  }
  if (kind == "mistral") {
    model.head_dim = 16;
    model.sliding_window = 5;
  }
  if (kind == "qwen2") {
    model.sliding_window = 7;
    model.window_layers = "fww";
  }
  if (kind == "linear") {
    model.rope_scaling = spec::RopeScaling::linear;
    model.rope_scaling_factor = 4;
  }
  if (kind == "yarn") {
    model.rope_scaling = spec::RopeScaling::yarn;
    model.rope_scaling_factor = 8;
    model.rope_low_frequency_factor = 0.5;
    model.rope_high_frequency_factor = 8;
    model.rope_original_context = 64;
    model.rope_attention_factor = 0.1 * std::log(8) + 1;
  }
  if (kind == "llama3") {
    model.rope_scaling_factor = 8;
    model.rope_original_context = 64;
  }
  return model;
}

const std::vector<Case> kCases = {
    {"Llama", "llama.py", "llama", model_of(spec::Family::llama, 2, false), 3 * 9 + 3},
    {"Llama3", "llama.py", "llama3", related_model("llama3"), 3 * 9 + 3},
    {"LinearScaling", "llama.py", "linear", related_model("linear"), 3 * 9 + 3},
    {"Yarn", "llama.py", "yarn", related_model("yarn"), 3 * 9 + 3},
    {"Qwen2", "llama.py", "qwen2", related_model("qwen2"), 3 * 12 + 2},
    {"Qwen3", "llama.py", "qwen3", related_model("qwen3"), 3 * 11 + 3},
    {"Mistral", "llama.py", "mistral", related_model("mistral"), 3 * 9 + 3},
    {"Mixtral", "llama.py", "mixtral", related_model("mixtral"), 3 * 9 + 3},
    {"Qwen3Moe", "llama.py", "qwen3_moe", related_model("qwen3_moe"), 3 * 11 + 3},
    {"DeepseekV3", "llama.py", "deepseek_v3", related_model("deepseek_v3"), 12 + 2 * 16 + 3},
    {"DeepseekMtp", "llama.py", "deepseek_mtp", related_model("deepseek_mtp"), 12 + 3 * 16 + 4 + 3},
    {"Olmo2", "llama.py", "olmo2", model_of(spec::Family::olmo2, 2, false), 3 * 11 + 3},
    {"Gpt2", "gpt2.py", "tied", model_of(spec::Family::gpt2, 8, true), 3 * 16 + 4},
    {"Gpt2Untied", "gpt2.py", "untied", model_of(spec::Family::gpt2, 8, false), 3 * 16 + 5}};

class Reference : public testing::TestWithParam<Case> {
 protected:
  // One process for all kinds of a script: most of its time goes into importing.
  static void SetUpTestSuite() {
    std::map<std::string, std::string> kinds;
    for (const Case& c : kCases) kinds[c.script] += " " + c.kind;
    for (const auto& [script, all] : kinds) {
      const std::string command = cat(".venv/bin/python tests/reference/", script, " ", root().string(), all);
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
  }
  void SetUp() override {
    folder_ = root() / GetParam().kind;
    file_ = std::make_unique<checkpoint::Safetensors>((folder_ / "reference.safetensors").string());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(root()); }
  static std::filesystem::path root() {
    return std::filesystem::temp_directory_path() / cat("tessera-reference-", getpid());
  }

  Tensor expected(const std::string& name) const {
    const auto& found = file_->tensor(name);
    const auto dtype = found.dtype == "F64" ? at::kDouble : found.dtype == "I64" ? at::kLong : at::kFloat;
    return tensor::view_of(const_cast<std::byte*>(found.bytes.data()), found.shape, dtype);
  }

  // The script's model, trained on its tokens: batch `step` holds samples [step * 4, step * 4 + 4).
  spec::Run run(spec::Precision precision) const {
    spec::Run run;
    run.model = GetParam().model;
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
  Source source() const {
    return [all = expected("tokens")](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                      std::span<std::int64_t> targets, std::span<std::int64_t>) {
      for (std::size_t row = 0; row < samples.size(); ++row) {
        const auto* from = all.const_data_ptr<std::int64_t>() + samples[row] * 25;
        std::copy(from, from + 24, tokens.begin() + static_cast<std::ptrdiff_t>(row * 24));
        std::copy(from + 1, from + 25, targets.begin() + static_cast<std::ptrdiff_t>(row * 24));
      }
    };
  }

  std::filesystem::path folder_;
  std::unique_ptr<checkpoint::Safetensors> file_;
};

// `floor`: what a tensor that is zero in theory (a key bias) is measured by.
double relative_error(const Tensor& found, const Tensor& expected, double floor = 0) {
  return found.sub(expected.reshape(found.sizes())).abs().max().item<double>() /
         std::max(expected.abs().max().item<double>(), floor);
}

double rms_of_gradient(Session& session) {
  double squares = 0, elements = 0;
  for (auto& bucket : session.buckets()) {
    if (!program::counts_in_norm(bucket.table())) continue;
    squares += optim::squared_norm(bucket.kept_gradient()).item<double>();
    for (const auto& parameter : bucket.table().parameters)
      elements += static_cast<double>(parameter.elements());
  }
  return std::sqrt(squares / elements);
}

TEST_P(Reference, LogitsAgreeWithTransformers) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run(spec::Precision::fp32)), alone, source());
    model::Batch batch{.samples = 4,
                       .tokens_T = tensor::empty({96}, at::kLong),
                       .targets_T = tensor::empty({96}, at::kLong)};
    const std::vector<std::uint64_t> samples = {0, 1, 2, 3};
    source()(samples, {batch.tokens_T.mutable_data_ptr<std::int64_t>(), 96},
             {batch.targets_T.mutable_data_ptr<std::int64_t>(), 96}, {});
    const Tensor logits = session.logits(batch);
    const double error = relative_error(logits.view({4, 24, 97}), expected("logits"));
    RecordProperty("logits_relative_error", scientific(error));
    std::printf("logits: relative error %.1e\n", error);
    EXPECT_LT(error, 1e-5);
  });
}

TEST_P(Reference, AllGradientsAgreeWithTransformers) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    auto r = run(spec::Precision::fp32);
    r.training.clip_norm = 0;
    Session session(session_plan(r), alone, source(), {.keep_gradients = true});
    session.step();
    const double floor = rms_of_gradient(session);
    double worst = 0;
    int tensors = 0;
    for (auto& bucket : session.buckets())
      for (const auto& parameter : bucket.table().parameters) {
        const double error = relative_error(shard::parameter_in(bucket.kept_gradient(), parameter),
                                            expected("gradient." + parameter.name), floor);
        EXPECT_LT(error, 1e-5) << parameter.name;
        worst = std::max(worst, error);
        ++tensors;
      }
    EXPECT_EQ(tensors, GetParam().num_tensors);
    std::printf("gradients of %d tensors: worst relative error %.1e\n", tensors, worst);
  });
}

TEST_P(Reference, TwentyAdamWStepsWithClippingAndDecayGroupsAgreeWithPyTorch) {
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run(spec::Precision::fp64)), alone, source());
    double worst = 0;
    for (int step = 0; step < 20; ++step) {
      const auto report = session.step();
      const double loss = expected("losses").select(0, step).item<double>(),
                   norm = expected("norms").select(0, step).item<double>();
      worst = std::max({worst, std::abs(report.loss / loss - 1), std::abs(report.gradient_norm / norm - 1)});
    }
    for (auto& bucket : session.buckets())
      for (const auto& parameter : bucket.table().parameters)
        worst = std::max(worst, relative_error(shard::parameter_in(bucket.shard(), parameter),
                                               expected("trained." + parameter.name)));
    std::printf("20 AdamW steps in fp64: worst relative error %.1e\n", worst);
    EXPECT_LT(worst, 1e-12);
    EXPECT_GT(expected("norms").max().item<double>(), 0.5) << "clipping was never active";
  });
}

INSTANTIATE_TEST_SUITE_P(Families, Reference, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });
}  // namespace
}  // namespace tessera::train
