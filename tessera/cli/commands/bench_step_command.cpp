#include <cstdio>

#include "tessera/bare/bare_step.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/train/session.hpp"

namespace tessera::cli {

namespace {

bare::Config bare_config(const spec::Run& run) {
  const auto& m = run.model;
  const auto& t = run.training;
  return {.layers = m.layers,
          .hidden = m.hidden,
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .ffn = m.ffn,
          .vocab = m.vocab,
          .sequence = m.sequence,
          .batch = t.global_batch,
          .micro_batch = run.layout.micro_batch,
          .precision = run.layout.precision == spec::Precision::bf16 ? "bf16" : "fp32",
          .tied = m.tied_embeddings,
          .rope_theta = m.rope_theta,
          .norm_epsilon = m.norm_epsilon,
          .learning_rate = t.learning_rate,
          .beta1 = t.beta1,
          .beta2 = t.beta2,
          .epsilon = t.epsilon,
          .weight_decay = t.weight_decay,
          .clip_norm = t.clip_norm};
}

void refuse_what_bare_lacks(const spec::Run& run) {
  const auto refuse = [](const char* what, const char* hint) {
    throw UserError(
        cat("bench step measures a Llama on one rank with AdamW in fp32 or bf16: ", what, ". ", hint));
  };
  if (run.model.family != spec::Family::llama) refuse("the family is another", "Add model.family=llama.");
  if (run.model.dropout > 0) refuse("it has dropout", "Add model.dropout=0.");
  const auto& m = run.model;
  if (m.head_size() * m.heads != m.hidden || m.qkv_bias || m.qk_norm || m.rope_scaling_factor != 1 ||
      m.window_of(0) > 0)
    refuse("the model has heads, biases, norms or frequencies that the loop lacks",
           "Leave model.head_dim, qkv_bias, qk_norm, rope_scaling_factor and sliding_window out.");
  if (run.layout.ranks() != 1) refuse("the layout has several ranks", "Add layout.dp_replicate=1.");
  if (run.training.optimizer != spec::Optimizer::adamw)
    refuse("the optimizer is another", "Add training.optimizer=adamw.");
  if (run.layout.precision != spec::Precision::fp32 && run.layout.precision != spec::Precision::bf16)
    refuse("the precision is another", "Add layout.precision=fp32.");
  if (run.training.global_batch % run.layout.micro_batch != 0)
    refuse("the batch doesn't divide into micro-batches",
           "Make training.global_batch a multiple of layout.micro_batch.");
}

template <typename Work>
double timed(Work work) {
  const double start = now_seconds();
  work();
  return now_seconds() - start;
}

struct Rounds {
  std::vector<double> executor_seconds, bare_seconds, ratios;
};

// The order within a pair alternates, so that neither side always runs in the other's wake.
Rounds measure(train::Session& session, bare::BareStep& bare, const std::vector<std::int64_t>& tokens,
               const std::vector<std::int64_t>& targets, int rounds) {
  Rounds out;
  const auto ours = [&] { return timed([&] { session.step(); }); };
  const auto theirs = [&] { return timed([&] { bare.step(tokens.data(), targets.data()); }); };
  for (int warm_up = 0; warm_up < 2; ++warm_up) ours(), theirs();
  for (int round = 0; round < rounds; ++round) {
    double executor = 0, plain = 0;
    if (round % 2 == 0)
      executor = ours(), plain = theirs();
    else
      plain = theirs(), executor = ours();
    out.executor_seconds.push_back(executor);
    out.bare_seconds.push_back(plain);
    out.ratios.push_back(executor / plain);
  }
  return out;
}

void print(const Rounds& rounds, const spec::Run& run, std::int64_t parameters, bool json) {
  const double ratio = quantile(rounds.ratios, 0.5);
  const double spread = quantile(rounds.ratios, 0.75) - quantile(rounds.ratios, 0.25);
  const double tokens = static_cast<double>(run.training.global_batch * run.model.sequence);
  const double ours = quantile(rounds.executor_seconds, 0.5), theirs = quantile(rounds.bare_seconds, 0.5);
  if (json) {
    const metrics::Record record = {{"ratio_median", ratio},
                                    {"ratio_spread", spread},
                                    {"tokens_per_second", tokens / ours},
                                    {"executor_step_seconds", ours},
                                    {"bare_step_seconds", theirs},
                                    {"parameters", parameters},
                                    {"rounds", static_cast<std::int64_t>(rounds.ratios.size())},
                                    {"seconds", rounds.executor_seconds}};
    std::puts(metrics::json_object(record).c_str());
    return;
  }
  std::fputs(table({{"", "seconds a step", "tokens/s"},
                    {"executor", fixed(ours, 4), fixed(tokens / ours, 0)},
                    {"bare loop", fixed(theirs, 4), fixed(tokens / theirs, 0)}})
                 .c_str(),
             stdout);
  std::puts(cat(count_text(static_cast<double>(parameters)), " parameters: executor / bare ", fixed(ratio, 3),
                " (median of ", rounds.ratios.size(), " interleaved pairs, quartiles ", fixed(spread, 3),
                " apart)")
                .c_str());
}

}  // namespace

int bench_step_command(const Options& options) {
  const spec::Run run = job::load_run(options);
  refuse_what_bare_lacks(run);
  return job::on_ranks(run, options, [&](const job::Rank& rank) {
    const auto& alone = rank.communicator;
    const auto source = train::random_source(run.model);
    train::Session session(train::session_plan(run), alone, source);
    bare::BareStep bare(bare_config(run));
    std::vector<std::uint64_t> samples(static_cast<std::size_t>(run.training.global_batch));
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = i;
    std::vector<std::int64_t> tokens(samples.size() * static_cast<std::size_t>(run.model.sequence)),
        targets(tokens), documents(tokens);
    source(samples, tokens, targets, documents);
    print(measure(session, bare, tokens, targets, options.rounds), run,
          plan::num_parameters(session.program().tables), options.json);
  });
}

}  // namespace tessera::cli
