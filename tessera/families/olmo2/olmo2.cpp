// OLMo 2: the norms come after the branches, and RMSNorm goes over all channels of q and of k, whichever head
// they belong to. Else as Llama.
#include "tessera/base/text.hpp"
#include "tessera/plan/model/allocation_events.hpp"
#include "tessera/plan/model/blocks.hpp"
#include "tessera/plan/model/decoder.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::Piece;

// residual + norm(x W).
Piece product_norm_and_residual(const char* name, const Sizes& s, std::int64_t in) {
  Piece piece = product_and_residual(name, s, in, 0);
  const Piece after = norm(s, kRmsNorm);
  piece.bytes_read += after.bytes_read;
  piece.bytes_written += after.bytes_written;
  piece.collectives.insert(piece.collectives.end(), after.collectives.begin(), after.collectives.end());
  piece.backward_collectives.insert(piece.backward_collectives.begin(), after.backward_collectives.begin(),
                                    after.backward_collectives.end());
  return piece;
}

// The ranks of tp add up their squares of q and of k, and in the backward what depends on these sums.
Piece attention_with_norm(const Sizes& s) {
  Piece piece = rotary_attention(s, true);
  const auto [over, ranks] = branch_channels(s);
  if (ranks == 1) return piece;
  const program::Collective sums{program::CollectiveKind::all_reduce, over, 2 * s.n * s.a};
  piece.collectives.insert(piece.collectives.begin(), sums);
  for (program::ResultWork& work : piece.result_work) ++work.first_call;
  piece.backward_collectives.push_back(sums);
  return piece;
}

// sum = residual + dropout(norm(branch W)).
void leaving_events(Piece& piece, const Sizes& s, const std::string& branch, std::int64_t in,
                    const std::string& sum) {
  const std::string product = sum + ".product", normed = sum + ".normed";
  const std::int64_t bytes = s.r * s.h * s.c;
  AllocationEvents forward, backward;
  forward_product(forward, s, {branch, product, ""}, {in, s.h, false});
  forward.drop(branch);
  const std::string left = forward_leave(forward, s, product), dropped = s.drops ? sum + ".dropped" : normed;
  forward_norm(forward, s, false, left, normed);
  forward.drop(left);
  forward_dropout(forward, s, normed, dropped);
  forward.make(sum, bytes).drop(dropped);
  // The gradient of what is normed is the sum's, which is needed once more.
  backward.make("d." + normed, bytes);
  backward_norm(backward, s, false, left, normed, "");
  const std::string gradient = "d." + left;
  backward_product(backward, s, {branch, product, backward_leave(backward, s, gradient)}, {in, s.h, false});
  drop_left(backward, s, gradient);
  backward.drop(gradient);
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

program::Unit block_unit(const Sizes& s, const spec::Model&, const StepShape&, std::int64_t layer) {
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  Piece qkv = entering_product("qkv", s, s.q + 2 * s.k);
  qkv.repeated_flops = repeated_key_flops(s);
  program::Unit unit{
      cat("block.", layer),
      {made_of(qkv, {linear_step("stream_1", {"hidden"}, {"entering_1"}), enter("entering_1"),
                     step("qkv", {"entering_1"}, {"qkv"},
                          names({"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                 "self_attn.v_proj.weight"}))}),
       made_of(attention_with_norm(s), {step("attention", {"qkv"}, {"attended"},
                                             names({"self_attn.q_norm.weight", "self_attn.k_norm.weight"}))}),
       made_of(product_norm_and_residual("out+norm", s, s.q),
               {step("out", {"attended"}, {"attended_sums"}, names({"self_attn.o_proj.weight"})),
                leave("attended_sums"),
                step("norm_1", {"attended_sums"}, {"attended_normed"},
                     names({"post_attention_layernorm.weight"})),
                linear_step("add_1", {"attended_normed", "hidden"}, {"middle"})}),
       made_of(
           entering_product("up", s, 2 * s.f),
           {linear_step("stream_2", {"middle"}, {"entering_2"}), enter("entering_2"),
            step("up", {"entering_2"}, {"gate_up"}, names({"mlp.gate_proj.weight", "mlp.up_proj.weight"}))}),
       made_of(gate(s), {step("gate", {"gate_up"}, {"gated"})}),
       made_of(product_norm_and_residual("down+norm", s, s.f),
               {step("down", {"gated"}, {"fed_sums"}, names({"mlp.down_proj.weight"})), leave("fed_sums"),
                step("norm_2", {"fed_sums"}, {"fed_normed"}, names({"post_feedforward_layernorm.weight"})),
                linear_step("add_2", {"fed_normed", "middle"}, {"hidden"})})}};
  add_entering_events(unit.pieces[0], s, "x", "qkv", s.q + 2 * s.k, "d.middle");
  add_attention_events(unit.pieces[1], s, /*has_rotary=*/true, /*has_qk_norm=*/true);
  leaving_events(unit.pieces[2], s, "attended", s.q, "middle");
  add_entering_events(unit.pieces[3], s, "middle", "up", 2 * s.f, "d.y");
  add_function_events(unit.pieces[4], s, /*is_gated=*/true);
  leaving_events(unit.pieces[5], s, "fed", s.f, "y");
  unit.pieces[5].forward_events.push_back({.act = program::AllocationEvent::Act::drop, .storage = "middle"});
  settle(unit);
  return unit;
}

PlacedParameters block_vectors(const spec::Model& m, std::int64_t layer) {
  const std::string block = cat("model.layers.", layer, ".");
  return {rows_cut(norm_weight(block + "self_attn.q_norm", m.query_size())),
          rows_cut(norm_weight(block + "self_attn.k_norm", m.key_size()), TensorPlacement::with_keys),
          {norm_weight(block + "post_attention_layernorm", m.hidden)},
          {norm_weight(block + "post_feedforward_layernorm", m.hidden)}};
}

}  // namespace

ModelPlan olmo2_plan(const spec::Model& model, const StepShape& shape) {
  return decoder_plan(model, shape, {block_unit, attention_matrices, block_vectors});
}

}  // namespace tessera::plan
