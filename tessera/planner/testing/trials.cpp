#include "tessera/planner/testing/trials.hpp"

#include <algorithm>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/planner/search/answer.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::planner {
namespace {

class Draw {
 public:
  Draw(std::uint64_t seed, int number) : seed_(seed), number_(static_cast<std::uint64_t>(number)) {}
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[random_bits(seed_, number_, next_++) % list.size()];
  }

 private:
  const std::uint64_t seed_, number_;
  std::uint64_t next_ = 0;
};

spec::Run random_run(Draw& draw) {
  spec::Run run;
  spec::Model& model = run.model;
  model.hidden = draw.one_of<std::int64_t>({512, 1024, 2048});
  model.heads = model.hidden / 128, model.kv_heads = std::min<std::int64_t>(model.heads, 4),
  model.ffn = 4 * model.hidden;
  model.layers = draw.one_of<std::int64_t>({4, 6, 8, 12});
  model.vocab = 32000, model.sequence = draw.one_of<std::int64_t>({1024, 2048, 4096});
  if (draw.one_of({false, false, true}))
    model.experts = 8, model.experts_per_token = 2, model.expert_ffn = model.hidden;
  run.training.global_batch = draw.one_of<std::int64_t>({16, 24, 32, 64});
  run.layout.precision = spec::Precision::bf16;
  return run;
}

Cluster random_cluster(Draw& draw) {
  Cluster out;
  NodeKind kind{.name = "random", .device = known_device("H100-80GB-SXM")};
  kind.device.node_devices = draw.one_of({1.0, 2.0, 4.0, 8.0});
  kind.count = draw.one_of({1.0, 2.0, 3.0, 4.0});
  kind.device.tflops *= draw.one_of({0.1, 0.3, 1.0});
  kind.device.memory_gb = draw.one_of({6.0, 8.0, 12.0, 24.0, 80.0});
  kind.device.link_gbps *= draw.one_of({0.02, 0.1, 1.0});
  kind.device.network_gbps *= draw.one_of({0.02, 0.2, 1.0});
  out.nodes = {kind};
  join_nodes(out);
  return out;
}

std::string described(const spec::Run& run, const Cluster& cluster) {
  const Device& d = cluster.nodes.front().device;
  return cat(run.model.layers, " blocks of ", run.model.hidden, run.model.experts > 0 ? " with experts" : "",
             ", sequence ", run.model.sequence, ", batch ", run.training.global_batch, " on ",
             cluster.devices(), " devices (", d.node_devices, " a node) of ", d.tflops, " TFLOP/s, ",
             d.memory_gb, " GB, ", d.link_gbps, " and ", d.network_gbps, " GB/s");
}

std::optional<Answer> best_of(const spec::Run& run, const Cluster& cluster) {
  try {
    return plan(run, cluster, Fit(), {.tokens = 1e9, .answers = 1}).answers.front();
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// More of one thing, and what it is.
std::string raise(Draw& draw, Cluster& cluster) {
  const std::string what = draw.one_of<const char*>({"link", "network", "memory", "FLOPs", "devices"});
  const double times = draw.one_of({1.1, 1.5, 2.0, 4.0});
  NodeKind& kind = cluster.nodes.front();
  if (what == "link") kind.device.link_gbps *= times;
  if (what == "network") kind.device.network_gbps *= times;
  if (what == "memory") kind.device.memory_gb *= times;
  if (what == "FLOPs") kind.device.tflops *= times;
  if (what == "devices") kind.count += std::max(1.0, times - 1);
  if (what == "devices") kind.count = static_cast<double>(static_cast<std::int64_t>(kind.count));
  join_nodes(cluster);
  return cat(what, what == "devices" ? cat(" up to ", cluster.devices()) : cat(" x ", times));
}

}  // namespace

std::string monotone_violation(std::uint64_t seed, int number) {
  Draw draw(seed, number);
  const spec::Run run = random_run(draw);
  const Cluster weaker = random_cluster(draw);
  Cluster stronger = weaker;
  const std::string change = raise(draw, stronger);
  const auto before = best_of(run, weaker), after = best_of(run, stronger);
  if (!before) return "";
  constexpr double kRounding = 1e-9;
  if (after && after->step.seconds <= before->step.seconds * (1 + kRounding)) return "";
  return cat(described(run, weaker), ": ", change, " takes ",
             after ? cat(fixed(100 * (after->step.seconds / before->step.seconds - 1), 3), " % longer (",
                         layout_text(before->refined.candidate.layout), ", then ",
                         layout_text(after->refined.candidate.layout), ")")
                   : "more than there is: nothing fits");
}

std::string pin_violation(std::uint64_t seed, int number) {
  Draw draw(seed, number);
  spec::Run run = random_run(draw);
  const Cluster cluster = random_cluster(draw);
  std::vector<std::string> overrides;
  const int count = draw.one_of({1, 2, 3});
  for (int i = 0; i < count; ++i)
    overrides.emplace_back(draw.one_of<const char*>(
        {"layout.tp=1", "layout.tp=2", "layout.tp=8", "layout.pp=1", "layout.pp=2", "layout.pp=3",
         "layout.zero=0", "layout.zero=3", "layout.micro_batch=3", "layout.micro_batch=2",
         "layout.recompute=full", "layout.cp=2", "layout.schedule=gpipe", "layout.schedule=zb-v",
         "layout.dp_shard=2", "layout.offload=optimizer", "layout.overlap=false", "layout.tp_overlap=true"}));
  for (const std::string& text : overrides) {
    const auto equals = text.find('=');
    const spec::Key* key = spec::find_key(text.substr(0, equals));
    const std::string value = text.substr(equals + 1);
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
    key->set(run, is_number ? spec::Value(static_cast<std::int64_t>(std::stoll(value)))
                  : value == "true" || value == "false" ? spec::Value(value == "true")
                                                        : spec::Value(value));
  }
  const Pins pins(overrides);
  try {
    const Plan made = plan(run, cluster, Fit(), {.tokens = 1e9, .answers = 3, .pins = pins});
    for (const Answer& answer : made.answers)
      if (!pins.allow(answer.refined.run, run))
        return cat(pins.text(run), " is answered with ", layout_text(answer.refined.candidate.layout));
  } catch (const UserError& error) {
    for (const std::string& text : overrides)
      if (std::string_view(error.what()).find(text.substr(0, text.find('='))) == std::string_view::npos)
        return cat(text, " is not named: ", error.what());
  }
  return "";
}

}  // namespace tessera::planner
