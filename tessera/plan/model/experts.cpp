#include "tessera/plan/model/experts.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/plan/model/allocation_events.hpp"
#include "tessera/plan/model/decoder.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::Parameter;
using program::Piece;

void add_calls(Piece& piece, const spec::Model& m, const Sizes& s, const ExpertSizes& e) {
  piece.collectives = routing_calls(m, s, e);
  for (int way = 0; way < 2 && e.ranks > 1; ++way) {  // to the experts, and back
    piece.collectives.push_back({CollectiveKind::all_to_all, s.over_experts, e.leaving * s.h * s.c});
    piece.backward_collectives.push_back(piece.collectives.back());
  }
  add_sharing_of_results(piece, s);
  add_sharing_of_tokens(piece.backward_collectives, s);
}

// Rows of one size after the other, of which each is dropped once the next is there; the last is called `to`,
// as the first is if it is the only one.
void travel(AllocationEvents& events, const std::string& to, const std::vector<std::int64_t>& stops) {
  for (std::size_t i = 0; i < stops.size(); ++i) {
    events.make(i + 1 == stops.size() ? to : cat(to, ".", i), stops[i]);
    if (i > 0) events.drop(cat(to, ".", i - 1));
  }
}

// Rows are copied for each slice of an expert, exchanged and sorted, and the same on their way back, if they
// travel. With shared experts the sum comes later, and the gradient of what they read is there before.
void add_events(Piece& piece, const Sizes& s, const ExpertSizes& e, bool has_shared) {
  const std::int64_t row = s.h * s.c, rows = e.rows * row, inner = e.rows * e.f * s.c, tokens = e.t * row;
  const std::int64_t sent = e.t * e.k * row, leaving = e.leaving * row, scores = e.t * e.experts * s.a;
  const std::int64_t weight = e.f * s.h, widest = 2 * weight;
  const bool is_narrow = s.is_narrow(), travels = (e.ranks > 1);
  const std::int64_t packed = is_narrow ? widest * s.c : 0;
  // Weights before and after they are normalised, choices, their rows and back; the places of rows.
  const std::int64_t chosen =
      e.t * e.k * (2 * s.a + 3 * kIndexBytes) + (travels ? 2 * e.rows * kIndexBytes : 0);
  std::vector<std::int64_t> there = {sent}, back;
  if (e.slices > 1) there.push_back(leaving);
  if (travels) there.insert(there.end(), {rows, rows}), back = {rows, leaving};
  if (e.slices > 1) back.push_back(sent);
  AllocationEvents forward, backward;
  if (is_narrow) forward.make("routed.wide", e.t * s.h * s.a).tape("routed.wide").drop("routed.wide");
  if (!is_narrow) forward.tape("normed_2");
  forward.make("logits", scores).make("scores", scores).drop("logits").tape("scores").pass(2 * scores);
  forward.make("choices", chosen).tape("choices");
  travel(forward, "rows", there);
  forward.make("gate_up", 2 * inner).pass(packed).tape("rows").drop("rows");
  forward.make("rows.opened", inner)
      .make("gated", inner)
      .tape("gate_up")
      .tape("rows.opened")
      .drop("rows.opened");
  forward.make("made", rows).pass(packed).tape("gated").drop("gated");
  const std::string summed = travels ? "back" : "made";
  if (travels) {
    forward.make("unsorted", rows).drop("made");
    travel(forward, "back", {back.begin() + 1, back.end()});
    forward.drop("unsorted");
  }
  const std::string sum = is_narrow ? "sum" : "routed";
  forward.make(sum, e.t * s.h * s.a).pass(e.t * s.h * (is_narrow ? s.a + s.c : s.c));
  forward.tape(summed).drop(summed).drop("gate_up").drop("choices").drop("scores");
  if (is_narrow) forward.make("routed", tokens).drop(sum);
  if (!has_shared) forward.make("y", s.r * s.h * s.c).drop("routed").drop("normed_2").drop("middle");

  backward.make("d.made", sent).pass(sent).untape(summed);
  if (travels) {
    travel(backward, "d.arrived", {there.begin() + 1, there.end()});
    backward.drop("d.made");
  }
  const std::string d_made = travels ? "d.arrived" : "d.made";
  backward.make("d.gated", inner)
      .pass(packed)
      .defer(d_made, rows, "gated", inner, is_narrow ? 2 * packed : 0);
  backward.drop(d_made).untape("gated").make("d.gate_up", 2 * inner).pass(inner).drop("d.gated");
  backward.untape("gate_up").untape("rows.opened").make("d.rows", rows).pass(packed);
  backward.defer("d.gate_up", 2 * inner, "rows", rows, is_narrow ? 2 * packed : 0).drop("d.gate_up");
  backward.untape("rows");
  const std::string d_sent = travels ? "d.back" : "d.rows";
  if (travels) {
    travel(backward, "d.back", back);
    backward.drop("d.rows");
  }
  backward.make("d.tokens", e.t * s.h * s.a).pass(tokens).drop(d_sent);
  backward.make("d.scores", scores).pass(scores).untape("scores").untape("choices");
  backward.make(has_shared ? "part" : "d.normed_2", s.r * s.h * s.c).drop("d.scores").drop("d.tokens");
  if (has_shared) backward.sum("d.normed_2", "d.normed_2", s.r * s.h * s.c).drop("part");
  if (is_narrow)
    backward.untape("routed.wide");
  else
    backward.untape("normed_2");
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

std::int64_t shared_width(const spec::Model& model) { return model.shared_experts * model.expert_width(); }

Piece experts(const spec::Model& m, const Sizes& s, const ExpertSizes& e) {
  const std::int64_t inner = e.rows * e.f, rows = e.rows * s.h, weights = 3 * e.held * e.f * s.h;
  Piece piece{.name = "experts",
              .flops = 3 * product_flops(e.rows, s.h, e.f) + product_flops(e.t, s.h, e.experts),
              .bytes_read = (weights + 4 * rows + 4 * inner + 3 * s.r * s.h) * s.c,
              .bytes_written = (4 * rows + 4 * inner + 2 * s.r * s.h) * s.c,
              .channels = s.h,
              .token_parts = s.n / s.r};
  if (m.has_balance_loss())
    piece.losses.push_back({.name = "balance", .tokens = "positions", .in_parts = true});
  if (m.router_z_weight > 0)
    piece.losses.push_back({.name = "router_z", .tokens = "positions", .in_parts = true});
  add_calls(piece, m, s, e);
  add_events(piece, s, e, m.shared_experts > 0);
  return piece;
}

// The most that can come to a rank's experts: all tokens of the ranks that share experts choose as many of
// its experts as they can, or as capacity lets them.
std::int64_t most_rows(const spec::Model& m, const spec::Layout& layout, const ExpertSizes& e) {
  const std::int64_t all = e.ranks * e.t * std::min(e.k, e.held);
  if (m.capacity_factor == 0) return all;
  const double even = static_cast<double>(m.sequence * e.k) / static_cast<double>(e.experts);
  const auto of_sequence = static_cast<std::int64_t>(std::ceil(m.capacity_factor * even)) * e.held;
  return std::min(all, of_sequence * layout.micro_batch * std::min(e.ranks, layout.dp_shard));
}

}  // namespace

void add_sharing_of_tokens(std::vector<Collective>& calls, const Sizes& s) {
  if (s.tp > 1 && s.r == s.n) calls.push_back({CollectiveKind::all_gather, s.over_tp, s.n * s.h * s.c});
}

void add_sharing_of_results(Piece& piece, const Sizes& s) {
  const std::size_t first = piece.collectives.size();
  add_sharing_of_tokens(piece.collectives, s);
  if (piece.collectives.size() > first)
    piece.result_work.push_back({.first_call = static_cast<std::uint32_t>(first), .num_calls = 1});
}

std::vector<Collective> routing_calls(const spec::Model& m, const Sizes& s, const ExpertSizes& e) {
  std::vector<Collective> out;
  if (s.over_same_samples >= 0 && m.balance == spec::Balance::sequence)
    out.push_back({CollectiveKind::all_reduce, s.over_same_samples, s.samples * e.experts * kIndexBytes});
  if (s.over_batch >= 0) out.push_back({CollectiveKind::all_reduce, s.over_batch, e.experts * kIndexBytes});
  if (s.over_same_samples >= 0 && m.capacity_factor > 0)
    out.push_back({CollectiveKind::all_gather, s.over_same_samples,
                   s.n * s.cp_ring * s.cp_heads * (e.k + 2) * kIndexBytes});
  if (e.ranks == 1) return out;
  out.push_back({CollectiveKind::all_gather, s.over_experts, e.ranks * e.experts * kIndexBytes});
  out.push_back({CollectiveKind::all_to_all, s.over_experts, e.leaving * kIndexBytes});
  return out;
}

ExpertSizes::ExpertSizes(const spec::Model& m, const spec::Layout& layout)
    : t(layout.micro_batch * m.sequence / layout.cp / layout.tp),
      k(m.experts_per_token),
      f(m.expert_width() / layout.etp),
      experts(m.experts),
      held(m.experts / layout.ep),
      ranks(layout.ep * layout.etp),
      slices(layout.etp),
      leaving(t * k * slices),
      rows(leaving) {
  if (ranks == 1) return;
  const double load = layout.expert_load;
  rows = load > 0 ? std::llround(static_cast<double>(leaving) * load) : most_rows(m, layout, *this);
}

std::vector<Piece> expert_pieces(const spec::Model& m, const StepShape& shape, std::int64_t layer) {
  Sizes s(m, shape);
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  Piece norm_2 = norm(s, kRmsNorm);
  AllocationEvents forward, backward;
  forward_norm(forward, s, false, "middle", "normed_2");
  backward_norm(backward, s, false, "middle", "normed_2", "d.y");
  norm_2.forward_events = forward.list();
  norm_2.backward_events = backward.list();
  std::vector<std::string> of_experts = {"mlp.gate.weight", "mlp.experts.gate_up_proj",
                                         "mlp.experts.down_proj"};
  if (m.balance == spec::Balance::bias) of_experts.push_back("mlp.gate.e_score_correction_bias");
  const bool has_shared = m.shared_experts > 0;
  const std::string fed = has_shared ? "routed" : "fed_sums";
  std::vector<program::Step> steps = {step("experts", {"entering_2"}, {fed}, names(of_experts))};
  if (!has_shared) steps.push_back(linear_step("add_2", {"fed_sums", "middle"}, {"hidden"}));
  std::vector<Piece> out = {made_of(norm_2, {step("norm_2", {"middle"}, {"entering_2"},
                                                  names({"post_attention_layernorm.weight"}))}),
                            made_of(experts(m, s, {m, shape.layout}), steps)};
  if (!has_shared) return out;
  s.f = shared_width(m) / shape.layout.tp;
  Piece up = entering_product("shared up", s, 2 * s.f), opened = gate(s),
        down = product_and_residual("shared down", s, s.f, 0);
  opened.name = "shared gate";
  add_entering_events(up, s, "normed_2", "up", 2 * s.f, "");
  add_function_events(opened, s, /*is_gated=*/true);
  add_residual_events(down, s, {}, "fed", s.f, "y");
  for (const char* storage : {"routed", "normed_2", "middle"})
    down.forward_events.push_back({.act = program::AllocationEvent::Act::drop, .storage = storage});
  out.push_back(made_of(up, {enter("entering_2"), step("up", {"entering_2"}, {"gate_up"},
                                                       names({"mlp.shared_experts.gate_proj.weight",
                                                              "mlp.shared_experts.up_proj.weight"}))}));
  out.push_back(made_of(opened, {step("gate", {"gate_up"}, {"gated"})}));
  out.push_back(
      made_of(down, {step("down", {"gated"}, {"fed_sums"}, names({"mlp.shared_experts.down_proj.weight"})),
                     leave("fed_sums"), linear_step("join", {"fed_sums", "routed"}, {"fed_all"}),
                     linear_step("add_2", {"fed_all", "middle"}, {"hidden"})}));
  return out;
}

PlacedParameters expert_parameters(const spec::Model& m, std::int64_t layer) {
  const std::string mlp = cat("model.layers.", layer, ".mlp.");
  const auto cut = [](Parameter parameter) {
    parameter.cuts = {{.dim = 0}, {.dim = 2}};
    return PlacedParameter{std::move(parameter), TensorPlacement::experts};
  };
  const std::int64_t f = m.expert_width(), shared = shared_width(m);
  PlacedParameters out = {
      {{.name = mlp + "gate.weight", .shape = {m.experts, m.hidden}, .init = normal(m.init_std)},
       TensorPlacement::by_heads,
       /*is_wide=*/true},
      cut({.name = mlp + "experts.gate_up_proj",
           .shape = {m.experts, 2, f, m.hidden},
           .init = normal(m.init_std)}),
      cut({.name = mlp + "experts.down_proj",
           .shape = {m.experts, m.hidden, f},
           .init = residual_normal(m)})};
  if (shared == 0) return out;
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns,
                          const program::Init& init) {
    return Parameter{
        .name = cat(mlp, "shared_experts.", name, "_proj.weight"), .shape = {rows, columns}, .init = init};
  };
  out.push_back(rows_cut(matrix("gate", shared, m.hidden, normal(m.init_std))));
  out.push_back(rows_cut(matrix("up", shared, m.hidden, normal(m.init_std))));
  out.push_back(columns_cut(matrix("down", m.hidden, shared, residual_normal(m))));
  return out;
}

PlacedParameters expert_vectors(const spec::Model& m, std::int64_t layer) {
  if (!m.has_experts(layer) || m.balance != spec::Balance::bias) return {};
  return {{{.name = cat("model.layers.", layer, ".mlp.gate.e_score_correction_bias"),
            .shape = {m.experts},
            .init = {program::Init::Kind::zeros, 0}},
           TensorPlacement::by_heads,
           /*is_wide=*/true,
           program::UpdateRule::sign,
           m.balance_rate}};
}

}  // namespace tessera::plan
