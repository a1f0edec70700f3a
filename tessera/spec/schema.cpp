#include "tessera/spec/schema.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::spec {

namespace {

Range at_least(double least) { return {.least = least}; }
Range above(double least) { return {.least = least, .open_least = true}; }
Range from_to(double least, double most) { return {.least = least, .most = most}; }
Range from_below(double least, double most) { return {.least = least, .most = most, .open_most = true}; }

// Sizes have an upper bound so that products of two stay below 2^63; problems() looks at the longer ones.
constexpr double kMaxLayers = 1 << 16, kMaxWidth = 1 << 20, kMaxTokens = 1 << 24, kMaxAxis = 1 << 20;

template <typename Part>
class SectionKeys {
 public:
  SectionKeys(std::vector<Key>& keys, std::string section, Part Run::*part)
      : keys_(keys), section_(std::move(section)), part_(part) {}

  template <typename T>
  void add(std::string name, T Part::*field, Range range, std::string about) {
    Key key{.section = section_, .name = std::move(name), .range = range, .about = std::move(about)};
    const auto part = part_;
    if constexpr (std::is_enum_v<T>) {
      key.kind = Kind::word;
      key.words = words<T>();
      key.get = [=](const Run& run) { return Value(word(run.*part.*field)); };
      key.set = [=](Run& run, const Value& value) {
        const auto& list = words<T>();
        run.*part.*field =
            static_cast<T>(std::find(list.begin(), list.end(), std::get<std::string>(value)) - list.begin());
      };
    } else {
      using Stored = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>;
      key.kind = std::is_same_v<Stored, bool>           ? Kind::boolean
                 : std::is_same_v<Stored, std::int64_t> ? Kind::integer
                 : std::is_same_v<Stored, double>       ? Kind::number
                                                        : Kind::text;
      key.get = [=](const Run& run) { return Value(static_cast<Stored>(run.*part.*field)); };
      key.set = [=](Run& run, const Value& value) {
        run.*part.*field = static_cast<T>(std::get<Stored>(value));
      };
    }
    keys_.push_back(std::move(key));
  }
  template <typename T>
  void add(std::string name, T Part::*field, std::string about) {
    add(std::move(name), field, Range{}, std::move(about));
  }

 private:
  std::vector<Key>& keys_;
  std::string section_;
  Part Run::*part_;
};

void declare_model(std::vector<Key>& keys) {
  SectionKeys section(keys, "model", &Run::model);
  section.add("family", &Model::family, "architecture");
  section.add("layers", &Model::layers, from_to(1, kMaxLayers), "number of blocks");
  section.add("hidden", &Model::hidden, from_to(1, kMaxWidth), "width of the residual stream");
  section.add("heads", &Model::heads, from_to(1, kMaxWidth),
              "attention heads; divides hidden unless head_dim is given");
  section.add("kv_heads", &Model::kv_heads, from_to(1, kMaxWidth),
              "llama: key and value heads; divides heads. gpt2: as many as heads");
  section.add("head_dim", &Model::head_dim, from_to(0, kMaxWidth),
              "llama: channels of a head; 0: hidden / heads");
  section.add("q_rank", &Model::q_rank, from_to(0, kMaxWidth),
              "deepseek: channels that queries are made from (q_lora_rank)");
  section.add("kv_rank", &Model::kv_rank, from_to(0, kMaxWidth),
              "deepseek: channels that keys and values are made from (kv_lora_rank)");
  section.add("rope_dim", &Model::rope_dim, from_to(0, kMaxWidth),
              "deepseek: of a head's channels, how many are turned by rotary positions; 0: all");
  section.add("value_dim", &Model::value_dim, from_to(0, kMaxWidth),
              "deepseek: channels of a head's values; 0: as many as of its keys");
  section.add("attention_scale", &Model::attention_scale, above(0),
              "deepseek: factor of attention scores besides 1 / root of a head's channels");
  section.add("ffn", &Model::ffn, from_to(1, kMaxTokens), "inner width of the feed-forward part");
  section.add("vocab", &Model::vocab, from_to(1, kMaxTokens), "number of token ids");
  section.add("sequence", &Model::sequence, from_to(1, kMaxTokens), "tokens per sample");
  section.add("rope_theta", &Model::rope_theta, above(0), "llama: base of the rotary frequencies");
  section.add(
      "rope_scaling", &Model::rope_scaling,
      "which rotary frequencies a rope_scaling_factor above 1 divides: low ones, as Llama 3 or YaRN choose "
      "them, or all (linear)");
  section.add("rope_scaling_factor", &Model::rope_scaling_factor, at_least(1),
              "llama: what rotary frequencies are divided by, to take more positions; 1: none");
  section.add(
      "rope_low_frequency_factor", &Model::rope_low_frequency_factor, above(0),
      "rope scaling, llama3 and yarn (beta_slow): turns longer than rope_original_context over this are "
      "divided");
  section.add(
      "rope_high_frequency_factor", &Model::rope_high_frequency_factor, above(0),
      "rope scaling, llama3 and yarn (beta_fast): turns shorter than rope_original_context over this stay "
      "as they are");
  section.add("rope_original_context", &Model::rope_original_context, from_to(1, kMaxTokens),
              "rope scaling: positions that the model was first trained with");
  section.add("rope_attention_factor", &Model::rope_attention_factor, above(0),
              "rope scaling, yarn: cosines and sines are multiplied by it");
  section.add("sliding_window", &Model::sliding_window, from_to(0, kMaxTokens),
              "llama: positions that a query sees, its own among them, as Mistral has it; 0: all before it");
  section.add(
      "window_layers", &Model::window_layers,
      "which layers have the sliding_window, a letter each: w has it, f sees all; from the first again when "
      "there are more layers, so that wwf is two of three; empty: all have it");
  section.add("qkv_bias", &Model::qkv_bias, "llama: biases of q, k and v, as Qwen 2 has them");
  section.add("qk_norm", &Model::qk_norm,
              "llama: RMSNorm over the channels of each head of q and k, as Qwen 3 has it");
  section.add(
      "experts", &Model::experts, from_to(0, kMaxWidth),
      "llama: experts in the feed-forward part of a block, as Mixtral and Qwen 3 MoE have them; 0: none");
  section.add("experts_per_token", &Model::experts_per_token, from_to(1, kMaxWidth),
              "experts: how many a token goes to");
  section.add("expert_ffn", &Model::expert_ffn, from_to(0, kMaxTokens),
              "experts: inner width of one; 0: model.ffn");
  section.add("shared_experts", &Model::shared_experts, from_to(0, kMaxWidth),
              "experts: how many more every token goes to");
  section.add("dense_layers", &Model::dense_layers, from_to(0, kMaxLayers),
              "experts: blocks before the first that has them");
  section.add("router_scores", &Model::router_scores, "experts: how a router's logits become scores");
  section.add("router_groups", &Model::router_groups, from_to(1, kMaxWidth),
              "experts: equal groups that they lie in");
  section.add("router_groups_kept", &Model::router_groups_kept, from_to(1, kMaxWidth),
              "experts: groups that a token chooses from, those whose two best scores add up to most");
  section.add("router_normalizes", &Model::router_normalizes,
              "experts: the weights of a token's experts add up to router_scale");
  section.add("router_scale", &Model::router_scale, above(0), "experts: factor of their weights");
  section.add("balance", &Model::balance,
              "experts: how loads are kept equal: by a loss over each sequence or over the global batch, or "
              "by a bias "
              "of the choice that follows the loads");
  section.add("balance_weight", &Model::balance_weight, at_least(0),
              "balance = sequence or batch: weight of that loss");
  section.add("balance_rate", &Model::balance_rate, at_least(0),
              "balance = bias: what a bias moves by in a step");
  section.add("router_z_weight", &Model::router_z_weight, at_least(0),
              "experts: weight of the squared log-sum-exp of router logits in the loss");
  section.add(
      "capacity_factor", &Model::capacity_factor, at_least(0),
      "experts: each takes so many times an even share of a sequence's tokens, the first ones; 0: all");
  section.add("mtp_layers", &Model::mtp_layers, from_to(0, 1),
              "deepseek: 1: a block after the last predicts the token after the next one "
              "(num_nextn_predict_layers)");
  section.add("mtp_weight", &Model::mtp_weight, at_least(0), "of the loss of that block");
  section.add("norm_epsilon", &Model::norm_epsilon, at_least(0),
              "added to the mean square (gpt2: the variance) in a norm");
  section.add("tied_embeddings", &Model::tied_embeddings,
              "head and embedding share one weight; true by default when family is gpt2");
  section.add("init_std", &Model::init_std, at_least(0), "standard deviation of initial weights");
  section.add("dropout", &Model::dropout, from_below(0, 1),
              "share of channels zeroed in the embedding and in what each block adds, in steps of 1/65536");
  section.add(
      "weights", &Model::weights,
      "safetensors file, or folder of Hugging Face (which also gives the sizes), to start from; empty: drawn "
      "from training.seed");
  section.add(
      "follow_links", &Model::follow_links,
      "links in the folder of weights, and of a checkpoint that is begun from, may lead outside of it");
}

void declare_data(std::vector<Key>& keys) {
  SectionKeys section(keys, "data", &Run::data);
  section.add("path", &Data::path,
              "text file, read as bytes; looked for beside the run file first, then in the working folder");
  section.add(
      "sources", &Data::sources,
      "tokenized documents instead of data.path: names of pairs of .bin and .idx, with commas between");
  section.add("weights", &Data::weights,
              "sources: a number for each, how many of the samples it gives; empty: by their tokens");
  section.add("packing", &Data::packing,
              "sources: documents cut wherever a sample ends, or kept whole and packed by best fit");
  keys.back().former_words = {{"best_fit", "best-fit"}};
  section.add("skip", &Data::skip, at_least(0), "sources: samples that come before the first");
  section.add("validation", &Data::validation, from_below(0, 1),
              "sources: share of each one's documents that is evaluated on and never trained on");
  section.add("tokenizer", &Data::tokenizer,
              "sources: the tokenizer they were made with, for bits per byte; empty: not told");
  section.add("bytes_as_tokens", &Data::bytes_as_tokens,
              "train on the bytes of data.path as token ids although model.weights has a tokenizer");
  section.add("seed", &Data::seed, at_least(0), "decides the order of samples");
  section.add("document_end", &Data::document_end,
              "the byte that ends a document: attention stays within a document; empty: a sample is one");
}

void declare_training(std::vector<Key>& keys) {
  SectionKeys section(keys, "training", &Run::training);
  section.add("steps", &Training::steps, at_least(1), "optimizer steps");
  section.add("global_batch", &Training::global_batch, from_to(1, kMaxTokens),
              "samples per step, over all ranks");
  section.add("seed", &Training::seed, at_least(0), "decides the initial weights and what dropout zeroes");
  section.add("optimizer", &Training::optimizer, "update rule");
  section.add("learning_rate", &Training::learning_rate, at_least(0), "peak, reached after warm-up");
  section.add("min_learning_rate", &Training::min_learning_rate, at_least(0), "where the decay ends");
  section.add("warmup_steps", &Training::warmup_steps, at_least(0), "steps of linear warm-up");
  section.add("decay", &Training::decay, "learning rate after warm-up");
  section.add("decay_steps", &Training::decay_steps, at_least(0),
              "wsd: length of the final decay; 0: a fifth of the steps");
  section.add("beta1", &Training::beta1, from_below(0, 1), "adamw: decay of the first moment");
  section.add("beta2", &Training::beta2, from_below(0, 1), "adamw: decay of the second moment");
  section.add("epsilon", &Training::epsilon, above(0), "adamw: added to the root of the second moment");
  section.add("weight_decay", &Training::weight_decay, at_least(0),
              "strength of the pull of weights towards 0");
  section.add("momentum", &Training::momentum, from_below(0, 1), "sgd: decay of the velocity");
  section.add("clip_norm", &Training::clip_norm, at_least(0),
              "bound of the global gradient norm; 0: no clipping");
  section.add("loss_scale_start", &Training::loss_scale_start, from_to(1, 0x1p32),
              "fp16: factor of the first step's loss, a power of two; halved when a gradient is not finite");
  section.add("loss_scale_growth_steps", &Training::loss_scale_growth_steps, at_least(1),
              "fp16: updates in a row after which the factor doubles");
  section.add(
      "stop_after_skipped", &Training::stop_after_skipped, at_least(0),
      "steps in a row whose gradients are not finite after which the run saves and stops; fp16: those "
      "that only halve the loss scale do not count; 0: never");
  section.add(
      "local_steps", &Training::local_steps, from_to(0, kMaxTokens),
      "steps that each of the dp_replicate replicas makes by itself, on its share of the batch, before they "
      "exchange weights; 0: they make every step together");
  section.add(
      "outer_optimizer", &Training::outer_optimizer,
      "local steps: the mean of the replicas' weights, or a step with Nesterov momentum against the mean of "
      "what they moved");
  section.add("outer_learning_rate", &Training::outer_learning_rate, at_least(0),
              "outer_optimizer nesterov: its rate");
  section.add("outer_momentum", &Training::outer_momentum, from_below(0, 1),
              "outer_optimizer nesterov: its decay");
  section.add(
      "outer_delay", &Training::outer_delay, from_to(0, kMaxTokens),
      "local steps: how many of the next ones an exchange may take, beside them; 0: they wait for it");
  section.add("record_choices", &Training::record_choices,
              "file to write which experts every token chose; empty: none");
  section.add("replay_choices", &Training::replay_choices,
              "such a file, whose choices are taken in place of the router's; empty: none");
}

void declare_evaluation(std::vector<Key>& keys) {
  SectionKeys section(keys, "evaluation", &Run::evaluation);
  section.add("every", &Evaluation::every, at_least(0),
              "steps between evaluations, the last step besides; 0: none");
  section.add(
      "path", &Evaluation::path,
      "text file that is not trained on, read as data.path is; with data.sources: data.validation says "
      "what is held out");
  section.add("samples", &Evaluation::samples, at_least(0), "how many of its samples; 0: all");
}

void declare_metrics(std::vector<Key>& keys) {
  SectionKeys section(keys, "metrics", &Run::metrics);
  section.add("listen", &Metrics::listen,
              "address:port where rank 0 answers Prometheus (GET /metrics), such as 127.0.0.1:9464 or "
              "[::]:9464; port 0: any free one, which is printed; empty: nowhere");
}

void declare_checkpoint(std::vector<Key>& keys) {
  SectionKeys section(keys, "checkpoint", &Run::checkpoint);
  section.add("every", &Checkpoint::every, at_least(0),
              "steps between saves, the last step besides; 0: by time alone");
  section.add(
      "every_minutes", &Checkpoint::every_minutes, from_to(0, 1e6),
      "minutes between saves, the last step besides; 0: by steps alone. With both 0 nothing is saved");
  section.add("keep_last", &Checkpoint::keep_last, at_least(0), "newest checkpoints that are kept; 0: all");
  section.add("keep_every", &Checkpoint::keep_every, at_least(0),
              "checkpoints of steps that this divides are kept too; 0: none");
  section.add("folder", &Checkpoint::folder, "where they lie; empty: checkpoints/ in the folder of the run");
  section.add(
      "background", &Checkpoint::background,
      "write beside the next steps, from a copy in memory; with offload in use the steps wait instead");
}

void declare_layout(std::vector<Key>& keys) {
  SectionKeys section(keys, "layout", &Run::layout);
  section.add("pp", &Layout::pp, from_to(1, kMaxAxis), "pipeline stages");
  section.add("dp", &Layout::dp_ranks, from_to(0, kMaxAxis),
              "data-parallel ranks: dp_shard if zero, servers, ep or etp shares something over them, else "
              "dp_replicate; 0: as these two say");
  section.add("dp_replicate", &Layout::dp_replicate, from_to(1, kMaxAxis), "data-parallel replicas");
  section.add("dp_shard", &Layout::dp_shard, from_to(1, kMaxAxis),
              "data-parallel ranks that share one sharded state");
  section.add(
      "servers", &Layout::servers, from_to(0, kMaxAxis),
      "parameter servers: ranks beside those of dp, for each of pp and tp, that hold and update a slice "
      "of the weights each and compute nothing");
  section.add(
      "updates", &Layout::updates,
      "with servers: one update with the gradients of all workers, or one with those of each worker, whose "
      "share of the batch a step then is: bounded by staleness, or asynchronous");
  section.add("staleness", &Layout::staleness, from_to(0, 1 << 20),
              "bounded: how many updates a worker that begins a step may be ahead of the slowest");
  section.add(
      "compress_gradients", &Layout::compress_gradients,
      "how gradients of matrices travel when they are reduced: as they are, rounded to bf16 or to 8 bits "
      "with a scale for each block, or as the product of two thin matrices, with what that leaves out added "
      "to the next gradient; lossy");
  section.add("compress_weights", &Layout::compress_weights,
              "with zero: how weights of matrices travel when they are gathered: none, bf16 or int8; lossy");
  section.add("compress_block", &Layout::compress_block, from_to(8, 1 << 20),
              "int8: elements that share a scale");
  section.add("compress_rank", &Layout::compress_rank, from_to(1, 1 << 10),
              "powersgd: columns of the thin matrices");
  section.add("cp", &Layout::cp, from_to(1, kMaxAxis), "ranks that share a sequence");
  section.add(
      "cp_heads", &Layout::cp_heads, from_to(1, kMaxAxis),
      "how many of cp exchange heads for positions (all-to-all); the others pass keys and values round "
      "a ring");
  section.add("tp", &Layout::tp, from_to(1, kMaxAxis), "ranks that share a matrix");
  section.add("sequence_parallel", &Layout::sequence_parallel,
              "with tp: between blocks each rank holds a part of the tokens instead of all");
  section.add("tp_overlap", &Layout::tp_overlap,
              "with tp: blocks are cut at its collectives, which then run beside the computation of another "
              "micro-batch where there is no pipeline");
  keys.back().former_name = "opened";  // in run files and checkpoints of before
  section.add(
      "tp_regather", &Layout::tp_regather,
      "with sequence_parallel: the gathered input of a branch is gathered again in the backward instead "
      "of kept; blocks cut by tp_overlap keep it");
  section.add("tp_kind", &Layout::tp_kind,
              "how values and matrices are cut over tp: 1d by channels; 2d (q x q ranks), 2.5d (q x q x "
              "tp_depth) and 3d (q x q x q) in blocks of samples and channels");
  section.add("tp_depth", &Layout::tp_depth, from_to(1, kMaxAxis),
              "with tp_kind 2.5d: how many layers of ranks hold the same weights");
  section.add("tp_gather", &Layout::tp_gather,
              "with tp_kind 2d or 2.5d: a product gets all of its blocks at once, in fewer calls and more "
              "memory, instead of one by one");
  section.add("ep", &Layout::ep, from_to(1, kMaxAxis),
              "ranks that share the experts, of those of dp_shard, cp and tp");
  section.add("etp", &Layout::etp, from_to(1, kMaxAxis),
              "ranks, of the same, that share the matrices of each expert");
  section.add("ep_overlap", &Layout::ep_overlap,
              "with ep or etp: blocks with experts are cut where rows travel, which then do so beside the "
              "computation of another micro-batch where there is no pipeline");
  section.add("expert_load", &Layout::expert_load, from_to(0, 1e6),
              "tokens of a rank's experts that memory and time are planned for, over an even share; 0: the "
              "most that can come");
  section.add("zero", &Layout::zero, from_to(0, 3),
              "what dp_shard shards: 1 optimizer state, 2 gradients too, 3 weights too");
  section.add(
      "reduce_every", &Layout::reduce_every, from_to(0, kMaxTokens),
      "zero 2 and 3: micro-batches after which gradients are reduced; 1: least memory, 0: once a step, "
      "least traffic");
  section.add("keep_mib", &Layout::keep_mib, from_to(0, 1 << 24),
              "zero 3: MiB of gathered weights that a rank keeps for a later use");
  section.add("prefetch", &Layout::prefetch, from_to(0, kMaxLayers),
              "zero 3: buckets that are gathered ahead of their use");
  section.add("schedule", &Layout::schedule, "order of micro-batches in the pipeline");
  section.add("virtual_stages", &Layout::virtual_stages, from_to(0, kMaxLayers),
              cat("model chunks per pipeline rank; 0: 1 for ", schedules_of(1), "; 2 for the others"));
  section.add("stages", &Layout::stages,
              "units (embedding, blocks, head) of each stage, such as 3,2,2,3; empty: dealt by cost");
  section.add("schedule_file", &Layout::schedule_file,
              "a CSV file in PyTorch's compute-only form (2F0, 2B0, 2I0, 2W0) instead of a schedule");
  section.add("max_activations", &Layout::max_activations, at_least(0),
              "activations of one stage and micro-batch that a rank may hold; 0: no limit");
  section.add(
      "receive_ahead_mib", &Layout::receive_ahead_mib, from_to(0, 1 << 20),
      "MiB that a rank may receive from other stages before it needs them; one is always received ahead");
  section.add("micro_batch", &Layout::micro_batch, from_to(1, kMaxTokens),
              "samples per micro-batch and data-parallel rank");
  section.add("micro_batches_by_rank", &Layout::micro_batches_by_rank,
              "micro-batches of each data-parallel rank in a step, such as 3,1, for ranks of unequal speed; "
              "empty: all take turns");
  section.add("recompute", &Layout::recompute, "what the backward computes again instead of keeping it");
  section.add("recompute_pieces", &Layout::recompute_pieces,
              "selective: pieces of a block that are computed again, such as attention,gate");
  section.add("offload", &Layout::offload,
              "what lies outside a rank's memory between its uses: any of optimizer,parameters,values");
  section.add("offload_folder", &Layout::offload_folder,
              "folder for files with what is offloaded; empty: host memory");
  section.add("memory_limit_mib", &Layout::memory_limit_mib, from_to(0, 1 << 24),
              "MiB a rank may hold; 0: no limit. What recompute = budget must fit in");
  section.add("precision", &Layout::precision, "of compute; bf16 and fp16 keep fp32 master weights");
  section.add("overlap", &Layout::overlap, "gradient reductions run beside the backward");
  section.add("overlap_steps", &Layout::overlap_steps,
              "the next step begins while reductions and optimizer steps of this one are under way");
  section.add(
      "communication", &Layout::communication,
      "with overlap_steps: gradients are reduced in the order of arrival, or by priority: first what the "
      "next step needs first, as far as cluster.link_mbits lets it be foreseen; auto: whichever is "
      "simulated to be faster, where slice_kib and credit_kib are 0 with slices and a credit of its choice");
  section.add(
      "slice_kib", &Layout::slice_kib, from_to(0, 1 << 24),
      "KiB of parameters that are reduced and gathered at a time, at most; a matrix stays whole. 0: all "
      "of a block");
  keys.back().former_name = "slice_mib", keys.back().former_unit = 1024;
  section.add(
      "credit_kib", &Layout::credit_kib, from_to(0, 1 << 24),
      "by priority: KiB of gradients that may be on their way at a time; one slice may always. 0: one "
      "slice");
  section.add("automatic", &Layout::automatic,
              "train plans the layout at its start, for the ranks that it is given; layout = \"auto\" "
              "outside of a section says the same");
}

void declare_cluster(std::vector<Key>& keys) {
  SectionKeys section(keys, "cluster", &Run::cluster);
  section.add("transport", &Cluster::transport,
              "how ranks talk: processes over sockets, threads of one process, or a GPU each over nccl");
  keys.back().former_words = {{"gloo", "sockets"}};  // in run files and checkpoints of before
  section.add("devices", &Cluster::devices, from_to(0, kMaxAxis), "0: as many as the layout needs");
  section.add("timeout_seconds", &Cluster::timeout_seconds, from_to(0.001, 1e7),
              "how long nothing may begin or end on any rank while one waits for another");
  section.add("grace_seconds", &Cluster::grace_seconds, from_to(0.001, 1e7),
              "how long the job may take to finish its step and save after a signal; then it is ended");
  section.add(
      "restarts", &Cluster::restarts, from_to(0, 1'000'000),
      "how often in a row all ranks are started again from the newest checkpoint when one dies or hangs; "
      "a newer checkpoint begins the count anew. With training.local_steps also how often the ranks of "
      "a lost replica are");
  section.add("peak_tflops", &Cluster::peak_tflops, from_to(0, 1e6),
              "of one device, the yardstick of FLOP utilisation; 0: measured after the first step");
  section.add(
      "link_mbits", &Cluster::link_mbits, from_to(0, 1e9),
      "megabits a second of a rank's link to the others, for orders and simulations; 0: not known, and "
      "taken to be 16,000");
  section.add("store", &Cluster::store,
              "host:port where rank 0 listens for ranks on other hosts; empty: all are on one host");
  section.add("key_file", &Cluster::key_file,
              "file with the job's key (16 bytes or more, mode 600), needed by cluster.store");
  section.add("pin", &Cluster::pin, "each rank of a host computes on cores of its own");
}

}  // namespace

const std::vector<Section>& sections() {
  static const std::vector<Section> list = {
      {"model", "What is trained."},
      {"data", "What it is trained on."},
      {"training", "For how long, and by which rule."},
      {"evaluation", "How good it is, on what it is not trained on."},
      {"metrics", "Who may watch it."},
      {"checkpoint", "What is kept of a run, so that it can go on."},
      {"layout", "How the work is split over ranks, and in which order it runs."},
      {"cluster", "Where the ranks are, and how they talk."}};
  return list;
}

const std::vector<std::string>& expert_keys() {
  static const std::vector<std::string> list = {"model.experts_per_token",  "model.expert_ffn",
                                                "model.shared_experts",     "model.dense_layers",
                                                "model.router_scores",      "model.router_groups",
                                                "model.router_groups_kept", "model.router_normalizes",
                                                "model.router_scale",       "model.balance",
                                                "model.balance_weight",     "model.balance_rate",
                                                "model.router_z_weight",    "model.capacity_factor"};
  return list;
}

const std::vector<Key>& schema() {
  static const std::vector<Key> list = [] {
    std::vector<Key> keys;
    declare_model(keys);
    declare_data(keys);
    declare_training(keys);
    declare_evaluation(keys);
    declare_metrics(keys);
    declare_checkpoint(keys);
    declare_layout(keys);
    declare_cluster(keys);
    return keys;
  }();
  return list;
}

bool is_section(std::string_view name) {
  return std::ranges::any_of(sections(), [&](const Section& section) { return section.name == name; });
}

const Key* find_key(std::string_view full) {
  const auto& keys = schema();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) {
    return key.full() == full || (!key.former_name.empty() && cat(key.section, ".", key.former_name) == full);
  });
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace tessera::spec
