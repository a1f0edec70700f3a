// The values of one run file, in plain structs; schema.hpp says how they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/program/schedule/registry.hpp"
#include "tessera/spec/family.hpp"
#include "tessera/spec/transport.hpp"

namespace tessera {
namespace spec {
enum class Schedule : std::uint8_t {};  // its place in program::kSchedules
}

// "zb-v"_schedule. A name that is not in program/schedule/schedules.def does not compile.
consteval spec::Schedule operator""_schedule(const char* name, std::size_t size) {
  return static_cast<spec::Schedule>(program::schedule_index({name, size}).value());
}

}  // namespace tessera

namespace tessera::spec {

enum class Precision { fp32, fp64, bf16, fp16 };  // compute; bf16 and fp16 keep fp32 master weights
enum class TensorKind { d1, d2, d25, d3 };        // 1d, 2d, 2.5d, 3d
enum class Recompute { none, full, selective, budget };
// In which order gradients are reduced: as they are made, or as the next step needs what they update.
enum class Communication { arrival, priority, automatic };
// How gradients and weights travel: as they are, in fewer bits, or as the product of thin matrices.
enum class Compression { none, bf16, int8, powersgd };
// When servers update: with the gradients of all workers together, or with those of each by themselves.
enum class Updates { synchronous, bounded, asynchronous };
enum class Optimizer { adamw, sgd };
// What replicas that made steps by themselves do with the mean of what they moved.
enum class OuterOptimizer { average, nesterov };
enum class Packing { cut, best_fit };                // how documents become samples
enum class RopeScaling { llama3, linear, yarn };     // how rotary frequencies are made slower
enum class RouterScores { softmax, sigmoid };        // of experts
enum class Balance { none, sequence, batch, bias };  // how the loads of experts are kept equal
enum class Decay { constant, cosine, linear, wsd };  // the learning rate after warm-up

enum class Offload { optimizer, parameters, values };

// The line of schedules.def.
constexpr const program::ScheduleEntry& entry(Schedule schedule) {
  return program::kSchedules[static_cast<std::size_t>(schedule)];
}

struct Model {
  Family family = Family::llama;
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 4;
  std::int64_t head_dim = 0;  // channels of a head; 0: hidden / heads
  // Latent attention: queries, and keys with values, are made from few channels each; of a head's channels
  // the last rope_dim are turned, and keys share theirs.
  std::int64_t q_rank = 0, kv_rank = 0;  // of hidden; 0: none
  std::int64_t rope_dim = 0;             // 0: all of a head's
  std::int64_t value_dim = 0;            // channels of a head's values; 0: as many as of its keys
  double attention_scale = 1;            // of scores, besides 1 / root of a head's channels
  std::int64_t ffn = 688;
  std::int64_t vocab = 256;
  std::int64_t sequence = 256;  // tokens per sample
  double rope_theta = 10000.0;
  // linear: all frequencies are divided by the factor. llama3 and yarn: those that turn less often than
  // low_frequency_factor times in original_context positions; those that do more often than
  // high_frequency_factor times are kept, those between are blended.
  RopeScaling rope_scaling = RopeScaling::llama3;
  double rope_scaling_factor = 1;  // 1: none
  double rope_low_frequency_factor = 1;
  double rope_high_frequency_factor = 4;
  std::int64_t rope_original_context = 8192;
  double rope_attention_factor = 1;  // yarn: of cosines and sines
  std::int64_t sliding_window = 0;   // positions that a query sees; 0: all before it
  std::string window_layers;  // w or f for each layer, from the first again; empty: all have the window
  bool qkv_bias = false;      // biases of q, k and v
  bool qk_norm = false;       // RMSNorm over the channels of each head of q and k
  std::int64_t experts = 0;   // of a block; 0: its feed-forward part is one, and the next keys mean nothing
  std::int64_t experts_per_token = 2;
  std::int64_t expert_ffn = 0;      // inner width of one; 0: ffn
  std::int64_t shared_experts = 0;  // that every token goes to besides, as one of their width together
  std::int64_t dense_layers = 0;    // blocks before the first with experts
  RouterScores router_scores = RouterScores::softmax;
  std::int64_t router_groups = 1;       // equal groups of experts
  std::int64_t router_groups_kept = 1;  // of which a token's experts are chosen
  bool router_normalizes = true;        // the weights of a token add up to router_scale
  double router_scale = 1;
  Balance balance = Balance::none;
  double balance_weight = 0.01;  // sequence, batch: of the loss
  double balance_rate = 0.001;   // bias: of its update
  double router_z_weight = 0;    // of the squared log-sum-exp of router logits
  double capacity_factor = 0;    // tokens of a sequence that an expert takes, of what is even; 0: all
  std::int64_t mtp_layers = 0;   // blocks after the last that predict the token after the next: 0 or 1
  double mtp_weight = 0.3;       // of their loss
  double norm_epsilon = 1e-5;
  bool tied_embeddings = false;  // a run file starts from what its family does
  double init_std = 0.02;
  double dropout = 0;         // of the embedding and of what each block adds to the residual stream
  std::string weights;        // a safetensors file to start from; empty: drawn from the seed
  bool follow_links = false;  // of the folder of weights, to what lies outside of it
  // Positions that a query of the layer sees, if they are fewer than there are; 0: all before it.
  std::int64_t window_of(std::int64_t layer) const;
  // A letter for each layer; empty: there is no window.
  std::string windows() const;
  bool has_balance_loss() const { return balance == Balance::sequence || balance == Balance::batch; }
  // Those that predict further ahead too; they come last.
  std::int64_t blocks() const { return layers + mtp_layers; }
  bool has_experts(std::int64_t layer) const { return experts > 0 && layer >= dense_layers; }
  std::int64_t expert_width() const { return expert_ffn > 0 ? expert_ffn : ffn; }
  std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  std::int64_t query_size() const { return heads * head_size(); }
  std::int64_t turned_size() const { return rope_dim > 0 ? rope_dim : head_size(); }
  std::int64_t value_size() const { return value_dim > 0 ? value_dim : head_size(); }
  std::int64_t key_size() const { return kv_heads * head_size(); }
  bool operator==(const Model&) const = default;
};
// The same model, with one value for each key that means nothing in it: equal for models that compute the
// same.
Model in_one_form(Model model);

struct Data {
  std::string path;     // text file, read as bytes
  std::string sources;  // pairs of .bin and .idx with tokenized documents, instead
  std::string weights;  // a number for each of them; empty: as many samples as it has tokens
  Packing packing = Packing::cut;
  std::int64_t skip = 0;         // samples that come before the first
  double validation = 0;         // share of each source's documents that is evaluated on and not trained on
  std::string tokenizer;         // that the sources were made with
  std::uint64_t seed = 1;        // order of samples
  std::string document_end;      // one byte that ends a document: attention stays within; empty: all is one
  bool bytes_as_tokens = false;  // although the weights have a tokenizer
  bool has_documents() const { return !document_end.empty() || !sources.empty(); }
  bool operator==(const Data&) const = default;
};

struct Training {
  std::int64_t steps = 100;
  std::int64_t global_batch = 16;  // samples per step, over all ranks
  std::uint64_t seed = 1;          // initial weights, dropout
  Optimizer optimizer = Optimizer::adamw;
  double learning_rate = 1e-3;
  double min_learning_rate = 1e-4;
  std::int64_t warmup_steps = 10;
  Decay decay = Decay::cosine;
  std::int64_t decay_steps = 0;  // wsd: length of the final decay; 0: a fifth of the steps
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;                        // sgd
  double clip_norm = 1.0;                       // 0: no clipping
  double loss_scale_start = 65536;              // fp16: factor of the loss in the first backward
  std::int64_t loss_scale_growth_steps = 2000;  // fp16: doubled after so many updates in a row
  std::int64_t stop_after_skipped = 20;         // steps in a row that were not taken; 0: never
  std::int64_t local_steps = 0;  // of each replica by itself, before all of them meet; 0: they meet in each
  OuterOptimizer outer_optimizer = OuterOptimizer::average;
  double outer_learning_rate = 0.7;  // nesterov
  double outer_momentum = 0.9;       // nesterov
  std::int64_t outer_delay = 0;      // steps that an exchange may take
  std::string record_choices;        // file of which experts the tokens chose; empty: none
  std::string replay_choices;        // such a file, instead of what the router would choose
  bool operator==(const Training&) const = default;
};

// Of held-out samples, while a run trains.
struct Evaluation {
  std::int64_t every = 0;    // steps between two; 0: never
  std::string path;          // text file, read as bytes
  std::int64_t samples = 0;  // of it; 0: all
  bool operator==(const Evaluation&) const = default;
};

struct Metrics {
  std::string listen;  // address:port where rank 0 answers Prometheus, if anywhere
  bool operator==(const Metrics&) const = default;
};

struct Checkpoint {
  std::int64_t every = 0;       // steps between saves; 0: by time alone
  double every_minutes = 30;    // between saves; 0: by steps alone
  std::int64_t keep_last = 2;   // of the saved ones; 0: all
  std::int64_t keep_every = 0;  // those whose step is a multiple are kept too; 0: none
  std::string folder;           // empty: checkpoints/ in the folder of the run
  bool background = true;       // written beside the next steps, from a copy
  // Without being asked (tessera save): by steps, by time, and after the last step.
  bool saves() const { return every > 0 || every_minutes > 0; }
  bool operator==(const Checkpoint&) const = default;
};

// The ranks of tp as rows, columns and layers.
struct TensorGrid {
  std::int64_t rows = 1, columns = 1, layers = 1;
  std::int64_t ranks() const { return rows * columns * layers; }
};

struct Layout {
  std::int64_t pp = 1;
  std::int64_t dp_ranks =
      0;  // key `dp`, which a run file's reader turns into one of the next two; 0: as they say
  std::int64_t dp_replicate = 1;
  std::int64_t dp_shard = 1;
  std::int64_t servers = 0;  // ranks beside those of dp that hold and update weights and compute nothing
  Updates updates = Updates::synchronous;
  std::int64_t staleness =
      0;  // bounded: updates that a worker may be ahead of the slowest when it begins one
  Compression compress_gradients = Compression::none, compress_weights = Compression::none;
  std::int64_t compress_block = 64;  // int8: elements that share a scale
  std::int64_t compress_rank = 4;    // powersgd: columns of the thin matrices
  std::int64_t cp = 1;
  std::int64_t cp_heads =
      1;  // ranks of cp that exchange heads for positions; the others pass keys round a ring
  std::int64_t tp = 1;
  bool sequence_parallel = true;  // with tp, ranks hold a part of the tokens each between blocks
  bool tp_overlap =
      false;  // tp's collectives are ops of their own, under the computation of another micro-batch
  bool tp_regather = true;  // a product's gathered input is gathered again in the backward instead of kept
  TensorKind tp_kind = TensorKind::d1;
  std::int64_t tp_depth = 2;  // 2.5d: layers of the grid
  bool tp_gather = false;     // 2d, 2.5d: a product gets all of its blocks at once, instead of one by one
  std::int64_t ep = 1;        // ranks that share the experts, of those of dp_shard, cp and tp
  std::int64_t etp = 1;       // ranks, of the same, that share the matrices of one
  bool ep_overlap = false;    // rows of experts travel under the computation of another micro-batch
  double expert_load = 1;  // rows of a rank's experts that are planned for, over an even share; 0: the most
  std::int64_t zero = 0;
  std::int64_t reduce_every =
      1;  // zero 2 and 3: gradients are reduced after so many micro-batches; 0: once a step
  std::int64_t keep_mib = 0;  // zero 3: gathered weights that a rank may keep for a later use
  std::int64_t prefetch = 1;  // zero 3: buckets gathered ahead of their use
  Schedule schedule = "1f1b"_schedule;
  std::int64_t virtual_stages = 0;      // 0: as the schedule has it
  std::string stages;                   // units of each stage, "3,2,2,3"; empty: dealt by cost
  std::string schedule_file;            // an order of PyTorch's compute-only form instead of `schedule`
  std::int64_t max_activations = 0;     // of a stage, that a rank may hold at a time; 0: no limit
  std::int64_t receive_ahead_mib = 64;  // what a rank may receive from other stages before it needs it
  std::int64_t micro_batch = 1;         // samples per micro-batch and data-parallel rank
  std::string micro_batches_by_rank;    // of each data-parallel rank, "3,1"; empty: all take turns
  Recompute recompute = Recompute::none;
  std::string recompute_pieces = "attention";  // selective: pieces of a block
  std::string offload;                // of "optimizer", "parameters", "values": kept outside a rank's memory
  std::string offload_folder;         // where offloaded bytes lie in files; empty: in host memory
  std::int64_t memory_limit_mib = 0;  // of a rank; 0: no limit
  Precision precision = Precision::fp32;
  bool overlap = true;         // reductions run beside the backward
  bool overlap_steps = false;  // the next step begins while reductions and updates of this one are under way
  Communication communication = Communication::arrival;
  std::int64_t slice_kib = 0;  // of parameters that are reduced at a time, at most; 0: those of a block
  // By priority: gradients that may be on their way at a time over the same axes; 0: those of one slice.
  std::int64_t credit_kib = 0;
  bool automatic = false;  // train plans it at its start
  // Model chunks per pipeline rank.
  std::int64_t num_virtual() const;
  std::int64_t dp() const { return dp_replicate * dp_shard; }
  std::int64_t cp_ring() const { return cp / cp_heads; }
  // As tp_kind has them: 1d is one row; the others have as many rows as columns, and not tp ranks if tp is no
  // such product.
  TensorGrid grid() const;
  bool in_blocks() const { return tp_kind != TensorKind::d1; }
  // Ranks of tp among which the channels of a branch are cut, and the samples of a micro-batch.
  std::int64_t tp_channels() const { return grid().columns; }
  std::int64_t tp_samples() const { return in_blocks() ? grid().rows * grid().layers : 1; }
  bool cuts_stream() const { return sequence_parallel && tp > 1 && !in_blocks(); }
  // With tp_overlap the gathered input is a value of the program, which keeps it.
  bool regathers() const { return tp_regather && cuts_stream() && !tp_overlap; }
  std::int64_t ranks() const { return pp * (dp() + servers) * cp * tp; }
  // With servers: the worker that a rank is of; nothing: it serves.
  std::optional<int> worker_of(int rank) const;
  // Which of the dp_replicate a rank is in.
  int replica_of(int rank) const;
  std::vector<int> ranks_of_replica(int replica) const;
  // Micro-batches that each data-parallel rank runs in a step of `global_batch` samples; the last ones may be
  // short or empty.
  std::int64_t num_micro_batches(std::int64_t global_batch) const;
  // For each data-parallel rank, if the ranks have unequal numbers of them; else empty.
  std::vector<std::int64_t> unequal_micro_batches() const;
  bool operator==(const Layout&) const = default;
};

// The names of a list such as "attention, gate".
std::vector<std::string> split_list(const std::string& text);

// Numbers of a list such as "3,1"; nothing if it is none of whole numbers from 0 on.
std::optional<std::vector<std::int64_t>> split_numbers(const std::string& text);

// Whether layout.offload names it.
bool offloads(const Layout& layout, Offload what);

// Ranks of tp among which the heads of keys and values are cut; each of the others holds the same heads as
// one of these, so tp_rep of them share a head.
std::int64_t tp_kv(const Model& model, const Layout& layout);
std::int64_t tp_rep(const Model& model, const Layout& layout);

struct Cluster {
  Transport transport = Transport::sockets;
  std::int64_t devices = 0;     // 0: as many as the layout needs
  double timeout_seconds = 60;  // how long a rank waits for another
  double grace_seconds = 30;    // how long a job may take to stop after a signal
  std::int64_t restarts = 0;    // in a row, without a newer checkpoint in between
  double peak_tflops = 0;       // of one device, for FLOP utilisation; 0: measured
  double link_mbits = 0;        // per second, of a rank's link to the others; 0: not known
  std::string store;            // host:port where rank 0 listens when ranks on several hosts join
  std::string key_file;         // the key that all of them hold
  bool pin = true;              // each rank of a host computes on cores of its own
  // A loss head holds the logits of so many tokens at a time. Each chunk adds to the gradient of the whole
  // table, which takes a GPU longer than the products of few rows.
  std::int64_t loss_chunk_tokens() const;
  bool operator==(const Cluster&) const = default;
};

struct Run {
  Model model;
  Data data;
  Training training;
  Evaluation evaluation;
  Metrics metrics;
  Checkpoint checkpoint;
  Layout layout;
  Cluster cluster;
  std::int64_t num_micro_batches() const { return layout.num_micro_batches(training.global_batch); }
  // What each replica runs that makes local steps; the run itself where there are none.
  Run of_replica() const;
  bool operator==(const Run&) const = default;
};

}  // namespace tessera::spec
