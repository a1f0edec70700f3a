#include "tessera/planner/fit/runs_table.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <regex>

#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"

namespace tessera::planner {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Line {
 public:
  Line(const std::map<std::string, std::size_t>& columns, std::vector<std::string> cells)
      : columns_(columns), cells_(std::move(cells)) {}

  const std::string& text(const std::string& column) const {
    static const std::string kEmpty;
    const auto found = columns_.find(column);
    return found == columns_.end() || found->second >= cells_.size() ? kEmpty : cells_[found->second];
  }
  double number(const std::string& column, double otherwise = kNone) const {
    const std::string& cell = text(column);
    if (cell.empty()) return otherwise;
    return required_number(cat("run ", text("id"), ": ", column, " ="), cell, {.least = 0, .most = 1e18});
  }
  bool has(const std::string& column, std::string_view word) const {
    return text(column).find(word) != std::string::npos;
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> cells_;
};

std::string found_in(const std::string& text, const std::regex& pattern) {
  std::smatch match;
  return std::regex_search(text, match, pattern) ? match[1].str() : "";
}

AttentionKernel attention_of(const std::string& kernels, const std::string& stack) {
  if (kernels.find("attention2") != std::string::npos) return AttentionKernel::flash2;
  if (kernels.find("flash") != std::string::npos) return AttentionKernel::flash1;
  if (kernels == "torch") return AttentionKernel::plain;
  if (!kernels.empty()) return AttentionKernel::fused_softmax;
  // Megatron-LM before flash attention.
  for (const char* before : {"sc21", "korthikanti", "bloom", "vtrain", "zb"})
    if (stack.starts_with(before)) return AttentionKernel::fused_softmax;
  return AttentionKernel::flash2;
}

PipelineOrder order_of_schedule(const std::string& schedule) {
  if (schedule == "ZB-1p") return PipelineOrder::zb_h1;
  if (schedule.starts_with("ZB")) return PipelineOrder::zb_full;
  return PipelineOrder::one_f_one_b;
}

// A known one, or one whose numbers stand in columns of their own.
std::optional<Device> device_of(const Line& line) {
  const std::string& name = line.text("gpu");
  if (const Device* known = find_device(name)) return *known;
  if (!(line.number("tflops", 0) > 0)) return std::nullopt;
  Device out;
  out.name = name, out.tflops = line.number("tflops"), out.memory_gb = line.number("memory_size_gb", 8);
  out.memory_gbps = line.number("memory_gbps", 10);
  out.link_gbps = out.network_gbps = line.number("network_gbps", 1);
  out.node_devices = 1;
  out.issue_seconds = line.number("issue_seconds", out.issue_seconds);
  out.fixed_seconds = line.number("fixed_seconds", out.fixed_seconds);
  return out;
}

Network network_of_line(const Line& line, const Device& device) {
  static const std::regex kCards("(\\d+)x\\d+Gb"), kGigabits("\\d+x(\\d+)Gb"),
      kNode("(?:inter-node|network) (\\d+) Gb/s per node");
  Network out = network_of(device);
  out.half_bytes = line.number("half_bytes", out.half_bytes);
  out.bytes_per_node = line.number("bytes_per_node", out.bytes_per_node);
  const std::string& notes = line.text("notes");
  if (const std::string node = found_in(notes, kNode); !node.empty())
    out.network_gbps = std::stod(node) / 64;
  else if (const std::string cards = found_in(notes, kCards); !cards.empty())
    out.network_gbps = std::stod(cards) * std::stod(found_in(notes, kGigabits)) / 64;
  return out;
}

// What the number of parameters leaves for one expert; without it, the width in the table is an expert's.
double expert_width(const Workload& work, double parameters) {
  const double attention = 4 * work.hidden * work.hidden * work.layers, tables = 2 * work.vocab * work.hidden;
  const double width = (parameters - attention - tables) / (3 * work.hidden * work.layers * work.experts);
  return width > 0 ? width : work.ffn;
}

Workload work_of(const Line& line, const std::string& stack, const std::string& kernels) {
  static const std::regex kSharded("zero1=(\\d+)"), kSchedule("schedule ([\\w-]+)");
  const std::string &notes = line.text("notes"), &recompute = line.text("recompute");
  std::string precision = line.text("precision");
  for (char& c : precision) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Workload out;
  out.layers = line.number("layers"), out.hidden = line.number("hidden"), out.heads = line.number("heads");
  out.kv_heads = line.number("kv_heads", out.heads), out.head_dim = out.hidden / out.heads;
  out.ffn = line.number("ffn"), out.sequence = line.number("seq");
  out.gated = std::abs(out.ffn / out.hidden - 4) > 0.01;
  out.vocab = line.number("vocab", 51200);
  if (const double experts = line.number("moe_experts", 0); experts > 0) {
    out.experts = experts, out.experts_per_token = line.number("topk", 2), out.expert_ffn = out.ffn;
    out.gated = true;
    out.expert_ffn = expert_width(out, line.number("model_params", 0));
  }
  out.devices = line.number("n_gpus"), out.tp = line.number("tp"), out.pp = line.number("pp");
  out.dp = line.number("dp"), out.cp = line.number("cp", 1), out.ep = line.number("ep", 1);
  out.virtual_stages = line.number("vpp", 1);
  out.micro_batch = line.number("micro_batch", 1), out.global_batch = line.number("global_batch");
  out.zero = static_cast<int>(std::min(line.number("zero_stage", 0), 3.0));
  const std::string sharded = found_in(notes, kSharded);
  out.shard = sharded.empty() ? out.dp * out.cp : std::min(std::stod(sharded), out.dp * out.cp);
  out.sequence_parallel = line.number("seq_parallel", 0) > 0;
  out.recompute = recompute == "full"                  ? Recomputed::full
                  : recompute.starts_with("selective") ? Recomputed::attention
                                                       : Recomputed::none;
  const std::string schedule = found_in(notes, kSchedule);
  out.order = order_of_schedule(schedule);
  if (schedule == "ZB-2p") out.holds_times = 2;
  if (precision.find("fp8") != std::string::npos)
    out.fp8 = precision.find("rowwise") != std::string::npos ? Fp8::rowwise : Fp8::tensorwise;
  out.attention = attention_of(kernels, stack);
  out.fused_norms = kernels.empty() || kernels.find("RMS") != std::string::npos;
  out.eager = notes.find("eager") != std::string::npos;
  out.overlaps_tp = notes.find("syncTP") != std::string::npos;
  out.bytes = line.number("bytes", 2);
  if (out.bytes == 4) out.state_bytes = 8;
  if (line.has("notes", "dealt by cost")) out.deals_by_cost = true;
  // With ZeRO 1 gradients are summed in 16 bits unless the table says otherwise.
  out.grad_bytes =
      out.bytes == 2 && out.zero == 1 && precision.find("fp32 grad") == std::string::npos ? 2 : 4;
  return out;
}

std::string unusable(const Line& line, const Workload& work) {
  if (line.has("notes", "PER-LAYER")) return "the time of one block, not of a step";
  for (const auto& [name, value] : {std::pair<const char*, double>{"layers", work.layers},
                                    {"hidden", work.hidden},
                                    {"ffn", work.ffn},
                                    {"heads", work.heads},
                                    {"seq", work.sequence},
                                    {"n_gpus", work.devices},
                                    {"tp", work.tp},
                                    {"pp", work.pp},
                                    {"dp", work.dp},
                                    {"global_batch", work.global_batch}})
    if (!(value > 0)) return cat("its ", name, " is not known");
  return "";
}

// Without the end of the line.
std::string trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return std::string(line);
}

}  // namespace

std::string first_line(std::string_view csv) {
  std::size_t at = 0;
  csv_record(csv, at);
  return trimmed(csv.substr(0, at));
}

std::optional<std::vector<std::string>> csv_record(std::string_view text, std::size_t& at) {
  if (at >= text.size()) return std::nullopt;
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"')
        cells.back() += c;
      else if (at + 1 < text.size() && text[at + 1] == '"')
        cells.back() += '"', ++at;
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<MeasuredRun> read_runs(std::string_view csv, const std::string& name) {
  static const std::regex kKernels("attention kernel: ([^;]*)");
  std::size_t at = 0;
  const auto header = csv_record(csv, at);
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; header && i < header->size(); ++i) columns[(*header)[i]] = i;
  for (const char* needed :
       {"id", "gpu", "n_gpus", "layers", "hidden", "tp", "pp", "dp", "global_batch", "step_time_s"})
    if (!columns.contains(needed))
      throw UserError(cat(name, " is no table of runs: its first line has no column \"", needed,
                          "\". The columns are described in docs/planner.md."));
  std::vector<MeasuredRun> out;
  for (std::size_t begin = at; const auto cells = csv_record(csv, at); begin = at) {
    if (cells->size() == 1 && cells->front().empty()) continue;
    if (cells->size() > columns.size())
      throw UserError(cat(name, ", run ", out.size() + 1, " (", cells->front(), ") has ", cells->size(),
                          " cells, and there are ", columns.size(), " columns."));
    const Line line(columns, *cells);
    MeasuredRun run;
    run.record = trimmed(csv.substr(begin, at - begin));
    run.id = line.text("id"), run.quality = line.text("quality");
    const std::optional<Device> device = device_of(line);
    if (device) run.device = *device;
    run.stack = cat(run.id.substr(0, run.id.find('-')), "/", device ? device->name : line.text("gpu"));
    run.kernels = found_in(line.text("notes"), kKernels);
    run.work = work_of(line, run.stack, run.kernels);
    run.network = network_of_line(line, run.device);
    run.seconds = line.number("step_time_s", 0), run.memory_gb = line.number("memory_gb", 0);
    run.out_of_memory = line.text("notes").starts_with("OOM");
    run.unusable = device ? unusable(line, run.work) : cat("its device ", line.text("gpu"), " is not known");
    out.push_back(std::move(run));
  }
  return out;
}

}  // namespace tessera::planner
