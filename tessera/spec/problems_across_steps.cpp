#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/findings.hpp"

namespace tessera::spec {

namespace {

// Workers that do not wait for each other.
void check_updates(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  findings.need(layout.updates == Updates::bounded || layout.staleness == 0, "layout.staleness",
                "is for layout.updates = bounded");
  if (layout.updates == Updates::synchronous) return;
  const std::string how = cat("layout.updates = ", word(layout.updates));
  findings.need(layout.servers > 0, "layout.updates", "is for layout.servers above 0");
  findings.need(run.training.global_batch % layout.dp() == 0, "training.global_batch",
                cat("is not divisible by the ", layout.dp(), " workers, which take a share each with ", how));
  findings.need(layout.micro_batches_by_rank.empty(), "layout.micro_batches_by_rank",
                cat("deals one step to workers that wait for each other: leave it out with ", how));
  findings.need(layout.overlap && !layout.overlap_steps,
                layout.overlap ? "layout.overlap_steps" : "layout.overlap",
                cat("is decided by the servers with ", how, ": leave it out"));
  findings.need(layout.precision != Precision::fp16, "layout.precision",
                cat("has a loss scale, which workers would have to agree on: write bf16 with ", how));
  findings.need(run.model.dropout == 0, "model.dropout", cat("does not work with ", how, ": write 0"));
  findings.need(run.evaluation.every == 0, "evaluation.every",
                cat("needs all workers at one step: leave it out with ", how,
                    ", and evaluate checkpoints with tessera evaluate"));
  findings.need(!traits(run.cluster.transport).uses_gpus, "cluster.transport",
                cat("does not work with ", how, ": write sockets"));
}

// Replicas that make steps by themselves.
void check_local_steps(const Run& run, Findings& findings) {
  const Training& training = run.training;
  const Layout& layout = run.layout;
  const Training usual;
  if (training.outer_optimizer == OuterOptimizer::average) {
    findings.need(training.outer_learning_rate == usual.outer_learning_rate, "training.outer_learning_rate",
                  "is for training.outer_optimizer = nesterov");
    findings.need(training.outer_momentum == usual.outer_momentum, "training.outer_momentum",
                  "is for training.outer_optimizer = nesterov");
  }
  if (training.local_steps == 0) {
    findings.need(training.outer_optimizer == OuterOptimizer::average, "training.outer_optimizer",
                  "is for training.local_steps above 0");
    findings.need(training.outer_delay == 0, "training.outer_delay", "is for training.local_steps above 0");
    return;
  }
  const std::string how = cat("training.local_steps = ", training.local_steps);
  const auto whole_exchanges = [&](std::int64_t every, const char* key) {
    findings.need(every % training.local_steps == 0, key,
                  cat("is not a multiple of ", how, ", after which replicas have equal weights"));
  };
  whole_exchanges(run.checkpoint.every, "checkpoint.every");
  whole_exchanges(run.evaluation.every, "evaluation.every");
  findings.need(training.outer_delay < training.local_steps, "training.outer_delay",
                cat("is not below ", how, ": an exchange would not be over before the next"));
  findings.need(
      training.global_batch % layout.dp_replicate == 0, "training.global_batch",
      cat("is not divisible by the ", layout.dp_replicate, " replicas, which take a share each with ", how));
  findings.need(layout.servers == 0, "layout.servers", cat("does not work with ", how));
  findings.need(!layout.overlap_steps, "layout.overlap_steps",
                cat("does not work with ", how, ": leave it out"));
  findings.need(!entry(layout.schedule).traits.is_delayed, "layout.schedule",
                cat("keeps weights of two versions, which does not work with ", how));
  findings.need(layout.micro_batches_by_rank.empty(), "layout.micro_batches_by_rank",
                cat("does not work with ", how));
  findings.need(layout.precision != Precision::fp16, "layout.precision",
                cat("has a loss scale, which replicas would have to agree on: write bf16 with ", how));
  findings.need(run.model.dropout == 0, "model.dropout", cat("does not work with ", how, ": write 0"));
  findings.need(run.model.balance != Balance::bias, "model.balance",
                cat("moves biases by the loads of all replicas, which does not work with ", how));
  findings.need(training.record_choices.empty() && training.replay_choices.empty(),
                training.record_choices.empty() ? "training.replay_choices" : "training.record_choices",
                cat("does not work with ", how));
}

// What travels in fewer bytes.
void check_compression(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  const Layout usual;
  const auto uses = [&](Compression kind) {
    return layout.compress_gradients == kind || layout.compress_weights == kind;
  };
  findings.need(uses(Compression::int8) || layout.compress_block == usual.compress_block,
                "layout.compress_block", "is for int8");
  findings.need(uses(Compression::powersgd) || layout.compress_rank == usual.compress_rank,
                "layout.compress_rank", "is for layout.compress_gradients = powersgd");
  findings.need(layout.compress_weights == Compression::none || layout.zero > 0, "layout.compress_weights",
                "is for layout.zero above 0: without it no weights are gathered");
  findings.need(layout.compress_weights != Compression::powersgd, "layout.compress_weights",
                "may be none, bf16 or int8: thin matrices are for gradients");
  if (layout.compress_gradients == Compression::none && layout.compress_weights == Compression::none) return;
  const char* key = layout.compress_gradients != Compression::none ? "layout.compress_gradients"
                                                                   : "layout.compress_weights";
  findings.need(layout.servers == 0, key, "does not work with layout.servers");
  findings.need(!entry(layout.schedule).traits.is_delayed, key, "does not work with weights of two versions");
  if (layout.compress_gradients != Compression::powersgd) return;
  findings.need(layout.tp == 1, key,
                "would compress each part of a matrix by itself with layout.tp above 1: write int8");
  findings.need(run.model.experts == 0, key, "does not work with experts: write int8");
  findings.need(layout.zero <= 1, key,
                "needs whole gradients, once a step: write layout.zero = 0 or 1, or int8");
  findings.need(
      layout.zero == 0 || layout.dp_replicate == 1, key,
      "reduces over all ranks at once: write layout.dp instead of dp_replicate and dp_shard, or int8");
  findings.need(layout.zero == 0 || layout.pp == 1 || !run.model.tied_embeddings, key,
                "with tied embeddings and stages needs layout.zero = 0");
  findings.need(!offloads(layout, Offload::optimizer), key,
                "keeps what it leaves out in memory: leave layout.offload out");
}

// Ranks that hold what others compute with.
void check_servers(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  if (layout.servers == 0) return;
  findings.need(layout.dp_replicate == 1, "layout.dp_replicate",
                cat("is above 1, but workers of layout.servers are ranks of dp_shard: write layout.dp = ",
                    layout.dp(), " instead"));
  findings.need(
      layout.zero == 0, "layout.zero",
      "shards weights over the ranks that use them, but layout.servers hold them: leave one of the two "
      "out");
  findings.need(layout.cp == 1, "layout.cp", "does not work with layout.servers: leave one of the two out");
  findings.need(run.model.experts == 0, "layout.servers",
                "hold no experts yet: leave it out, or write model.experts = 0");
  findings.need(!offloads(layout, Offload::optimizer) && !offloads(layout, Offload::parameters),
                "layout.offload",
                "names what servers hold, and they hold nothing else: take more of layout.servers instead");
  findings.need(!entry(layout.schedule).traits.is_delayed, "layout.schedule",
                "keeps two versions of the weights, which layout.servers do not: write 1f1b or another");
}

}  // namespace

void check_across_steps(const Run& run, Findings& findings) {
  check_updates(run, findings);
  check_local_steps(run, findings);
  check_compression(run, findings);
  check_servers(run, findings);
}

}  // namespace tessera::spec
