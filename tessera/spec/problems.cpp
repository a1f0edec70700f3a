#include "tessera/spec/problems.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/listen_address.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/findings.hpp"
#include "tessera/spec/schema.hpp"
#include "tessera/spec/splits.hpp"

namespace tessera::spec {

namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;

// A Run made in C++ has not been through the parser.
void check_ranges(const Run& run, Findings& findings) {
  // Sentences take longer than the check, and layouts are checked by the thousand.
  for (const auto& key : schema())
    if (!fitted(key, key.get(run)))
      findings.need(false, key.full(), cat("is out of range; wants ", allowed(key)));
}

void check_model(const Model& model, Findings& findings) {
  const bool heads_fit = model.head_dim > 0 || model.hidden % model.heads == 0;
  findings.need(heads_fit, "model.hidden", cat("is not divisible by model.heads = ", model.heads));
  findings.need(model.heads % model.kv_heads == 0, "model.heads",
                cat("is not divisible by model.kv_heads = ", model.kv_heads));
  const FamilyTraits& family = traits(model.family);
  findings.need(!family.no_grouped_queries || model.kv_heads == model.heads, "model.kv_heads",
                cat("differs from model.heads; ", family.title,
                    " has no grouped queries: write model.kv_heads = ", model.heads));
  findings.need(!heads_fit || !family.no_rotary.empty() || model.head_size() % 2 == 0,
                model.head_dim > 0 ? "model.head_dim" : "model.hidden",
                cat("makes heads of ", model.head_size(), " channels; rotary positions need an even number"));
  const bool blends = model.rope_scaling_factor != 1 && model.rope_scaling != RopeScaling::linear;
  findings.need(!blends || model.rope_low_frequency_factor < model.rope_high_frequency_factor,
                "model.rope_low_frequency_factor",
                cat("is not below model.rope_high_frequency_factor = ", model.rope_high_frequency_factor));
  findings.need(model.rope_attention_factor == 1 || model.rope_scaling == RopeScaling::yarn,
                "model.rope_attention_factor", "is for model.rope_scaling = yarn");
  findings.need(model.window_layers.find_first_not_of("wf") == std::string::npos, "model.window_layers",
                "has other letters than w (the window) and f (all positions)");
  findings.need(model.window_layers.empty() || model.sliding_window > 0, "model.window_layers",
                "says who has a window, and model.sliding_window = 0 is none");
}

// Keys that mean nothing to the family.
void check_family(const Model& model, Findings& findings) {
  const Model none;
  const FamilyTraits& family = traits(model.family);
  const auto unused = [&](std::string_view why, bool is_default, const char* key) {
    findings.need(why.empty() || is_default, key,
                  cat("means nothing to ", family.title, ", ", why, ": leave it out"));
  };
  unused(family.no_rotary, model.rope_theta == none.rope_theta, "model.rope_theta");
  unused(family.no_rotary, model.rope_scaling_factor == 1, "model.rope_scaling_factor");
  unused(family.no_head_dim, model.head_dim == 0 || model.head_dim * model.heads == model.hidden,
         "model.head_dim");
  unused(family.no_window, model.sliding_window == 0, "model.sliding_window");
  unused(family.no_window, model.window_layers.empty(), "model.window_layers");
  unused(family.no_qkv_bias, !model.qkv_bias, "model.qkv_bias");
  unused(family.no_qk_norm, !model.qk_norm, "model.qk_norm");
  unused(family.no_latent, model.q_rank == 0, "model.q_rank");
  unused(family.no_latent, model.kv_rank == 0, "model.kv_rank");
  unused(family.no_latent, model.rope_dim == 0, "model.rope_dim");
  unused(family.no_latent, model.value_dim == 0, "model.value_dim");
  unused(family.no_latent, model.attention_scale == 1, "model.attention_scale");
  unused(family.no_latent, model.mtp_layers == 0, "model.mtp_layers");
  findings.need(model.mtp_layers > 0 || model.mtp_weight == none.mtp_weight, "model.mtp_weight",
                "is for model.mtp_layers = 1");
  if (!family.is_latent) return;
  findings.need(model.q_rank > 0, "model.q_rank",
                cat("is what ", family.title, " makes queries from: write it"));
  findings.need(model.kv_rank > 0, "model.kv_rank",
                cat("is what ", family.title, " makes keys and values from: write it"));
  findings.need(model.turned_size() < model.head_size(), "model.rope_dim",
                cat("leaves no channel of a head's ", model.head_size(), " that is not turned"));
  findings.need(model.turned_size() % 2 == 0, "model.rope_dim", "is odd; channels are turned in pairs");
  findings.need(model.value_size() <= model.head_size(), "model.value_dim",
                cat("is above the ", model.head_size(), " channels of a head's keys"));
}

// Keys of experts, in a model that has none or has them otherwise.
void check_experts(const Run& run, Findings& findings) {
  const Model& model = run.model;
  const FamilyTraits& family = traits(model.family);
  findings.need(family.no_experts.empty() || model.experts == 0, "model.experts",
                cat("means nothing to ", family.title, ", ", family.no_experts, ": leave it out"));
  const Run plain;
  const auto is_default = [&](const std::string& full) {
    const Key* key = find_key(full);
    return key->get(run) == key->get(plain);
  };
  if (model.experts == 0) {
    for (const std::string& key : expert_keys())
      findings.need(is_default(key), key, "is for model.experts above 0");
    for (const char* key : {"layout.ep", "layout.etp"})
      findings.need(is_default(key), key, "has no experts to share: it is for model.experts above 0");
    for (const char* key : {"training.record_choices", "training.replay_choices", "layout.expert_load"})
      findings.need(is_default(key), key, "is for model.experts above 0");
    return;
  }
  findings.need(model.has_balance_loss() || is_default("model.balance_weight"), "model.balance_weight",
                "is for model.balance = sequence or batch");
  findings.need(
      model.balance != Balance::batch || run.num_micro_batches() == 1, "model.balance",
      cat("batch counts the choices of all samples before any backward: each rank must have its samples "
          "in one micro-batch, and these are ",
          run.num_micro_batches(), ". Raise layout.micro_batch, or take sequence"));
  findings.need(model.balance == Balance::bias || is_default("model.balance_rate"), "model.balance_rate",
                "is for model.balance = bias");
  findings.need(run.training.record_choices.empty() || model.experts < 1 << 16, "training.record_choices",
                "keeps up to 65535 experts");
  findings.need(model.dense_layers < model.layers, "model.dense_layers",
                cat("leaves none of model.layers = ", model.layers, " to have experts"));
  findings.need(model.experts % model.router_groups == 0, "model.router_groups",
                cat("does not divide model.experts = ", model.experts));
  findings.need(model.router_groups_kept <= model.router_groups, "model.router_groups_kept",
                cat("is above model.router_groups = ", model.router_groups));
  const std::int64_t reached = model.experts / model.router_groups * model.router_groups_kept;
  findings.need(model.experts_per_token <= reached, "model.experts_per_token",
                cat("is above the ", reached, " experts that a token may choose from"));
  findings.need(!run.layout.tp_overlap, "layout.tp_overlap",
                "does not cut blocks with experts yet: leave it out");
}

void check_training(const Training& training, Findings& findings) {
  findings.need(training.min_learning_rate <= training.learning_rate, "training.min_learning_rate",
                cat("is above training.learning_rate = ", training.learning_rate));
  findings.need(
      training.decay != Decay::wsd || training.decay_steps <= training.steps - training.warmup_steps,
      "training.decay_steps",
      cat("leaves no room: training.steps = ", training.steps,
          " with training.warmup_steps = ", training.warmup_steps, " before"));
  // Multiplying by it and dividing again must not round.
  const double scale = training.loss_scale_start, nearest = std::exp2(std::round(std::log2(scale)));
  findings.need(scale == nearest, "training.loss_scale_start",
                cat("is not a power of two; the nearest is ", fixed(nearest, 0)));
}

void check_ranks(const Run& run, Findings& findings) {
  const auto& layout = run.layout;
  std::int64_t ranks = 1;  // multiplied with care: the product may exceed 64 bits
  for (const std::int64_t size :
       {layout.pp, layout.dp_replicate, layout.dp_shard + layout.servers, layout.cp, layout.tp}) {
    ranks = size > kMaxRanks / ranks ? kMaxRanks + 1 : ranks * size;
    if (ranks > kMaxRanks) break;
  }
  findings.need(ranks <= kMaxRanks, "layout.pp",
                cat("with dp_replicate, dp_shard, cp and tp makes more than ", kMaxRanks, " ranks"));
  findings.need(
      run.cluster.devices == 0 || ranks > kMaxRanks || ranks <= run.cluster.devices, "cluster.devices",
      cat("is fewer than the ", ranks, " ranks of the layout (pp * dp_replicate * dp_shard * cp * tp)"));
  findings.need(run.cluster.restarts == 0 || !traits(run.cluster.transport).is_one_process,
                "cluster.restarts",
                "is for ranks that are processes, and cluster.transport makes them threads of one");
}

// What ZeRO shards, it shards over dp_shard and cp.
void check_zero(const Layout& layout, Findings& findings) {
  findings.need(layout.zero == 0 || layout.dp_replicate == 1 || layout.dp_shard > 1 || layout.cp > 1,
                "layout.zero",
                cat("would shard nothing: ZeRO shards over layout.dp_shard, and all ", layout.dp_replicate,
                    " data-parallel ranks are whole replicas (layout.dp_replicate). Write layout.dp_shard = ",
                    layout.dp_replicate, " instead of dp_replicate, or layout.dp = ", layout.dp_replicate,
                    ", which chooses by layout.zero"));
  findings.need(layout.dp_ranks == 0, "layout.dp",
                "stands for dp_replicate or dp_shard and was not turned into one of them");
}

// Ranks of unequal speed.
void check_uneven(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  if (layout.micro_batches_by_rank.empty()) return;
  const auto by_rank = split_numbers(layout.micro_batches_by_rank);
  std::int64_t sum = 0;
  for (const std::int64_t count : by_rank.value_or(std::vector<std::int64_t>()))
    sum += std::min(count, std::int64_t{1} << 31);
  findings.need(by_rank.has_value() && std::ssize(*by_rank) == layout.dp() && sum > 0,
                "layout.micro_batches_by_rank",
                cat("must name a number for each of the ", layout.dp(), " data-parallel ranks, such as ",
                    layout.dp() == 1 ? "4" : "3,1", layout.dp() > 2 ? ",..." : ""));
  findings.need(
      sum * layout.micro_batch == run.training.global_batch || !by_rank, "layout.micro_batches_by_rank",
      cat("makes ", sum, " micro-batches of ", layout.micro_batch,
          " samples; training.global_batch = ", run.training.global_batch, " samples must be as many"));
}

// Two versions of the weights: one that is updated, and the one before, which is computed with.
void check_delayed(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  if (!entry(layout.schedule).traits.is_delayed || !layout.schedule_file.empty()) return;
  findings.need(
      layout.zero <= 1, "layout.zero",
      "frees what is computed with, but pipedream-2bw keeps it from step to step: write layout.zero = 1");
  findings.need(!offloads(layout, Offload::parameters), "layout.offload",
                "names parameters, but pipedream-2bw keeps two versions of them in memory");
  findings.need(run.num_micro_batches() >= layout.pp, "training.global_batch",
                cat("makes ", run.num_micro_batches(),
                    " micro-batches; pipedream-2bw needs at least layout.pp = ", layout.pp,
                    ", or a weight would be two versions behind"));
}

void check_overlap_steps(const Run& run, Findings& findings) {
  findings.need(run.layout.overlap_steps || run.layout.communication == Communication::arrival,
                "layout.communication",
                "changes nothing where each step ends before the next begins: set layout.overlap_steps too");
  findings.need(run.layout.communication != Communication::arrival || run.layout.credit_kib == 0,
                "layout.credit_kib", "is for layout.communication = priority or auto");
  if (!run.layout.overlap_steps) return;
  findings.need(
      run.layout.overlap, "layout.overlap",
      "keeps all communication on the compute lane, which layout.overlap_steps needs apart: leave it out");
  findings.need(run.layout.precision != Precision::fp16, "layout.overlap_steps",
                "does not work with fp16, whose loss scale must see a step before the next begins: write "
                "layout.precision = \"bf16\", or leave overlap_steps out");
}

// Of the chain embedding, blocks, head every stage takes at least one.
void check_stages(const Run& run, Findings& findings) {
  const Layout& layout = run.layout;
  const std::int64_t units = run.model.layers + 2;
  if (!layout.schedule_file.empty()) {  // which has its own stages
    findings.need(layout.virtual_stages == 0, "layout.virtual_stages",
                  "is decided by layout.schedule_file: leave it out");
    return;
  }
  const std::int64_t num_virtual = layout.num_virtual();
  const std::int64_t required = entry(layout.schedule).num_virtual;
  findings.need(required == 0 || num_virtual == required, "layout.virtual_stages",
                cat("must be ", required, " (or 0) with layout.schedule = ", word(layout.schedule),
                    required == 1 ? cat("; ", schedules_of(0), " take more") : ""));
  findings.need(layout.pp <= units / num_virtual, "layout.pp",
                cat("with ", num_virtual, " virtual stage(s) a rank",
                    layout.virtual_stages == 0 && num_virtual > 1
                        ? cat(" (as ", word(layout.schedule), " has by itself; see layout.virtual_stages)")
                        : "",
                    " makes more stages than the ", units, " units of the model (embedding, ",
                    run.model.layers, " blocks, head)"));
}

void check_memory(const Layout& layout, Findings& findings) {
  const auto& known = words<Offload>();
  for (const std::string& name : split_list(layout.offload))
    findings.need(std::find(known.begin(), known.end(), name) != known.end(), "layout.offload",
                  cat("names '", name, "'; it may name ", join(known, ", ")));
  findings.need(!offloads(layout, Offload::values) || layout.recompute != Recompute::none, "layout.offload",
                "names values, which leave only where they are not kept for a backward: write "
                "layout.recompute = full or selective");
  findings.need(layout.offload_folder.empty() || !split_list(layout.offload).empty(), "layout.offload_folder",
                "has nothing to hold: name in layout.offload what leaves memory, e.g. optimizer");
  findings.need(layout.recompute != Recompute::budget || layout.memory_limit_mib > 0, "layout.recompute",
                "needs to know what it must fit in: write layout.memory_limit_mib");
}

// What is planned counts bytes and tokens in 64 bits. A value takes up to 8 bytes, a parameter up to 32 (with
// gradient and moments) and a block keeps under 10 values per token and channel: 2^56 of either leave room.
void check_totals(const Run& run, Findings& findings) {
  constexpr double kMaxValues = 0x1p56, kMaxTokens = 0x1p62;
  const auto x = [](std::int64_t size) { return static_cast<double>(size); };
  const Model& m = run.model;
  const double hidden = x(m.hidden), width = std::max(hidden, x(m.heads) * x(m.head_size())), ffn = x(m.ffn),
               vocab = x(m.vocab), layers = x(m.layers);
  const double of_experts =
      m.experts > 0 ? 3 * hidden * x(m.expert_width()) * x(m.experts + m.shared_experts) : 0;
  findings.need(
      layers * (4 * hidden * width + 3 * hidden * ffn + of_experts) + 2 * vocab * hidden <= kMaxValues,
      "model.hidden", "with layers, ffn and vocab makes more than 2^56 parameters");
  findings.need(x(run.layout.micro_batch) * x(m.sequence) * (width + ffn + vocab) * layers <= kMaxValues,
                "layout.micro_batch",
                "is too large: micro_batch * model.sequence * (model.hidden + model.ffn + model.vocab) * "
                "model.layers is above 2^56");
  findings.need(x(run.training.steps) * x(run.training.global_batch) * x(m.sequence) <= kMaxTokens,
                "training.steps", "with global_batch and model.sequence makes more than 2^62 tokens");
}

// Ops of one step on all kinds of ranks, of which a plan is a list: about so many for each micro-batch, and
// within a factor of two of what is planned.
double ops_of_step(const Run& run) {
  const Layout& layout = run.layout;
  const bool moves_weights = layout.zero == 3 || !split_list(layout.offload).empty();
  const double of_unit = layout.tp_overlap                     ? 17
                         : layout.ep_overlap                   ? 12
                         : moves_weights                       ? 8
                         : layout.recompute != Recompute::none ? 4
                                                               : 2;
  const double of_stage = layout.pp > 1 ? 6 : 0;
  return static_cast<double>(run.num_micro_batches()) *
         (of_unit * static_cast<double>(run.model.layers + 2) +
          of_stage * static_cast<double>(layout.pp * layout.num_virtual()));
}

// A plan takes about a hundred bytes an op, and every rank makes it.
void check_ops(const Run& run, Findings& findings) {
  constexpr double kMostOps = 1 << 24;
  const double ops = ops_of_step(run);
  const auto samples =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::ceil(ops / kMostOps)))) *
      run.layout.micro_batch;
  findings.need(ops <= kMostOps, "training.global_batch",
                cat("makes ", run.num_micro_batches(), " micro-batches of ", run.layout.micro_batch,
                    " on a data-parallel rank, a step of about ", count_text(ops), " ops; at most ",
                    count_text(kMostOps), " can be planned: write layout.micro_batch = ", samples,
                    " or more, or take more data-parallel ranks"));
}

// Tensor parallelism in blocks of samples and channels.
void check_blocks(const Run& run, Findings& findings) {
  const Layout &layout = run.layout, none;
  const bool is_flat = layout.tp_kind == TensorKind::d2 || layout.tp_kind == TensorKind::d25;
  findings.need(layout.tp_kind == TensorKind::d25 || layout.tp_depth == none.tp_depth, "layout.tp_depth",
                "is for layout.tp_kind = 2.5d");
  findings.need(is_flat || !layout.tp_gather, "layout.tp_gather", "is for layout.tp_kind = 2d or 2.5d");
  if (!layout.in_blocks()) return;
  const std::string kind = cat("layout.tp_kind = ", word(layout.tp_kind));
  const std::int64_t parts = layout.tp_samples(), below = layout.micro_batch / parts * parts;
  const bool is_grid = layout.grid().ranks() == layout.tp;
  findings.need(!is_grid || layout.micro_batch % parts == 0, "layout.micro_batch",
                cat("must be a multiple of ", parts, ": with ", kind, " ", parts,
                    " ranks share its samples; the nearest possible: ", below > 0 ? cat(below, ", ") : "",
                    below + parts));
  findings.need(layout.sequence_parallel, "layout.sequence_parallel",
                cat("means nothing with ", kind, ", which cuts the stream in any case: leave it out"));
  findings.need(layout.tp_regather, "layout.tp_regather",
                cat("means nothing with ", kind, ", which keeps no gathered input: leave it out"));
  findings.need(!layout.tp_overlap, "layout.tp_overlap", cat("does not work with ", kind, ": leave it out"));
  findings.need(layout.cp_heads == 1, "layout.cp_heads",
                cat("does not work with ", kind, ": leave it out, and layout.cp uses ring attention"));
  findings.need(run.model.experts == 0, "layout.tp_kind", "does not support experts: write 1d");
  findings.need(run.model.kv_rank == 0 && run.model.mtp_layers == 0, "layout.tp_kind",
                "does not support latent attention, nor a block that predicts ahead: write 1d");
}

// Keys that say something of sources say it of nothing else.
void check_data(const Run& run, Findings& findings) {
  const Data& data = run.data;
  if (data.sources.empty()) {
    const Data none;
    findings.need(data.weights.empty(), "data.weights", "is for data.sources");
    findings.need(data.packing == none.packing, "data.packing", "is for data.sources");
    findings.need(data.skip == 0, "data.skip", "is for data.sources");
    findings.need(data.validation == 0, "data.validation",
                  "is for data.sources; name a text in evaluation.path");
    findings.need(data.tokenizer.empty(), "data.tokenizer", "is for data.sources");
    return;
  }
  findings.need(data.path.empty(), "data.path",
                "is bytes of a text, and data.sources has tokens: name one of them");
  findings.need(data.document_end.empty(), "data.document_end", "is for bytes; data.sources has documents");
  findings.need(run.evaluation.path.empty(), "evaluation.path",
                "is bytes of a text, and data.sources has tokens: hold documents out by data.validation");
  findings.need(run.evaluation.every == 0 || data.validation > 0, "evaluation.every",
                "has nothing to evaluate: data.validation = 0 holds no documents out");
  const std::size_t num_sources = split_list(data.sources).size(),
                    num_weights = split_list(data.weights).size();
  findings.need(num_weights == 0 || num_weights == num_sources, "data.weights",
                cat("has ", num_weights, num_weights == 1 ? " number" : " numbers", " for ", num_sources,
                    num_sources == 1 ? " source" : " sources"));
}

}  // namespace

Build any_build() {
  Build out{{}};
  for (const TransportEntry& entry : kTransports) out.transports.push_back(entry.transport);
  return out;
}

std::vector<Transport> transports_of_every_build() {
  std::vector<Transport> out;
  for (const TransportEntry& entry : kTransports)
    if (entry.traits.needs.empty()) out.push_back(entry.transport);
  return out;
}

std::vector<Problem> problems(const Run& run, const Build& build) {
  Findings ranges(run);
  check_ranges(run, ranges);
  // The other checks divide by these values.
  if (auto found = ranges.take(); !found.empty()) return found;
  Findings findings(run);
  check_model(run.model, findings);
  check_family(run.model, findings);
  check_experts(run, findings);
  check_training(run.training, findings);
  check_ranks(run, findings);
  check_stages(run, findings);
  check_zero(run.layout, findings);
  check_across_steps(run, findings);
  check_uneven(run, findings);
  findings.need(!run.layout.automatic, "layout.automatic",
                "is for tessera train, which plans the layout at its start; tessera plan shows it before");
  check_delayed(run, findings);
  check_memory(run.layout, findings);
  check_totals(run, findings);
  check_ops(run, findings);
  check_blocks(run, findings);
  for (const auto& [key, why] : split_problems(run)) findings.need(false, key, why);
  findings.need(!run.layout.tp_overlap || run.layout.tp > 1, "layout.tp_overlap",
                "has nothing to open: it is for layout.tp above 1");
  findings.need(!run.layout.ep_overlap || (run.model.experts > 0 && run.layout.ep * run.layout.etp > 1),
                "layout.ep_overlap", "has nothing to open: it is for layout.ep or layout.etp above 1");
  check_overlap_steps(run, findings);
  findings.need(run.data.document_end.size() <= 1, "data.document_end", "is more than one byte");
  check_data(run, findings);
  const std::string& listen = run.metrics.listen;
  findings.need(listen.empty() || parse_listen_address(listen).has_value(), "metrics.listen",
                "is not address:port; write 127.0.0.1:9464, or [::1]:9464, or 0.0.0.0:9464 for all who reach "
                "this host");
  std::vector<std::string> possible;
  for (const Transport transport : build.transports) possible.push_back(word(transport));
  findings.need(std::ranges::count(build.transports, run.cluster.transport) > 0, "cluster.transport",
                cat("needs ", traits(run.cluster.transport).needs,
                    ", which this is not; possible here: ", join(possible, ", ")));
  return findings.take();
}

void validate(const Run& run, const Build& build) {
  std::vector<std::string> lines;
  for (const auto& problem : problems(run, build)) lines.push_back(problem.text);
  if (!lines.empty()) throw UserError(join(lines, "\n"));
}

}  // namespace tessera::spec
