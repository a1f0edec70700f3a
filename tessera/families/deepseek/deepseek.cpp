// DeepSeek-V3: queries, and keys with values, are made from few latent channels, of which one run is turned
// and shared by all heads; experts with shared ones, after the first dense blocks. Else as Llama.
#include "tessera/base/text.hpp"
#include "tessera/plan/model/allocation_events.hpp"
#include "tessera/plan/model/decoder.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::Parameter;
using program::Piece;

struct Latent {
  std::int64_t width;     // of all latent channels of a token
  std::int64_t q, kv;     // those of queries; of keys and values
  std::int64_t heads_kv;  // keys that are not turned, and values, of this rank's heads
  std::int64_t values;    // of this rank's heads
  std::int64_t turned;    // of their queries
  Latent(const spec::Model& m, const spec::Layout& layout)
      : width(m.q_rank + m.kv_rank + m.turned_size()),
        q(m.q_rank),
        kv(m.kv_rank),
        heads_kv(m.heads / layout.tp * (m.head_size() - m.turned_size() + m.value_size())),
        values(m.heads / layout.tp * m.value_size()),
        turned(m.heads / layout.tp * m.turned_size()) {}
};

// norm(x) W for all latent channels, where the stream is; then they are gathered, not what they are made of.
Piece latent_piece(const Sizes& s, const Latent& l) {
  Piece piece{.name = "norm+latent",
              .flops = product_flops(s.r, s.h, l.width),
              .repeated_flops = s.r == s.n && s.tp > 1
                                    ? product_flops(s.r, s.h, l.width) * (1 - 1.0 / static_cast<double>(s.tp))
                                    : 0,
              .bytes_read = (2 * s.r * s.h + s.h * l.width + 2 * s.r * l.width) * s.c,
              .bytes_written = (s.r * s.h + 3 * s.r * l.width) * s.c,
              .channels = l.width,
              .token_parts = s.n / s.r};
  const std::int64_t width_bytes = s.r * l.width * s.c, stream_bytes = s.r * s.h * s.c,
                     kv_bytes = s.r * (l.width - l.q) * s.c;
  Sizes of_q = s, of_kv = s;
  of_q.h = l.q, of_kv.h = l.kv;
  AllocationEvents forward, backward;
  forward_norm(forward, s, false, "x", "normed_1");
  forward.make("latent.q", s.r * l.q * s.c).make("latent.kv", kv_bytes).tape("normed_1").drop("normed_1");
  forward_norm(forward, of_q, false, "latent.q", "latent.q.normed");
  forward_norm(forward, of_kv, false, "latent.kv", "latent.kv.normed");
  forward.make("latent", width_bytes);
  for (const char* name : {"latent.q", "latent.kv", "latent.q.normed", "latent.kv.normed"})
    forward.drop(name);
  backward.make("d.latent.kv.all", kv_bytes);
  backward_norm(backward, of_kv, false, "latent.kv", "latent.kv.normed", "");
  backward.pass(kv_bytes).drop("d.latent.kv");
  backward_norm(backward, of_q, false, "latent.q", "latent.q.normed", "");
  backward.drop("d.latent").make("d.normed_1", stream_bytes);
  backward.defer("d.latent.kv.all", kv_bytes, "normed_1", stream_bytes, 0).drop("d.latent.kv.all");
  backward.pass(stream_bytes).defer("d.latent.q", s.r * l.q * s.c, "normed_1", stream_bytes, 0);
  backward.untape("normed_1").drop("d.latent.q");
  backward_norm(backward, s, false, "x", "normed_1", "d.middle");
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
  return piece;
}

Piece heads_piece(const Sizes& s, const Latent& l) {
  const std::int64_t made = s.q + l.heads_kv;
  Piece piece{.name = "heads",
              .flops = product_flops(s.n, l.q, s.q) + product_flops(s.n, l.kv, l.heads_kv),
              .bytes_read = (s.n * l.width + l.q * s.q + l.kv * l.heads_kv + s.n * made) * s.c,
              .bytes_written = 2 * s.n * made * s.c,
              .channels = made + l.width - l.q - l.kv};
  Sizes of_latent = s;
  of_latent.h = l.width;
  enter_stream(piece, of_latent);
  const std::int64_t bytes = s.n * l.width * s.c, q_bytes = s.n * l.q * s.c, kv_bytes = s.n * l.kv * s.c,
                     made_bytes = s.n * piece.channels * s.c;
  AllocationEvents forward, backward;
  const std::string all = forward_enter(forward, of_latent, "latent");
  forward.make("q.from", q_bytes).make("q", s.n * s.q * s.c).tape("q.from");
  forward.make("kv.from", kv_bytes).make("kv", s.n * l.heads_kv * s.c).tape("kv.from");
  forward.make("qkv", made_bytes);
  for (const char* name : {"q.from", "kv.from", "q", "kv"}) forward.drop(name);
  forward.drop(all);
  backward.make("d." + all, bytes).make("d.kv.from", kv_bytes);
  backward.defer("d.qkv", made_bytes, "kv.from", kv_bytes, 0).untape("kv.from");
  backward.pass(bytes).drop("d.kv.from").make("d.q.from", q_bytes);
  backward.defer("d.qkv", made_bytes, "q.from", q_bytes, 0).untape("q.from").drop("d.qkv");
  backward.pass(bytes).drop("d.q.from");
  backward_enter(backward, of_latent, "latent");
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
  return piece;
}

// Values are filled up to the width of keys. Queries, keys and values of the kernel are made from the parts
// of what enters, of which nothing is kept; their gradients are put together from slices.
void add_latent_attention_events(Piece& piece, const Sizes& s, const Latent& l, std::int64_t entering) {
  const std::int64_t heads_bytes = s.n * s.q * s.c, turned_bytes = s.n * l.turned * s.c,
                     kv_bytes = s.n * l.heads_kv * s.c, entering_bytes = s.n * entering * s.c;
  AllocationEvents forward, backward;
  forward.make("turned", turned_bytes).pass(3 * turned_bytes);
  forward.make("queries", heads_bytes).drop("turned").make("keys", heads_bytes);
  forward.make("zeros", heads_bytes - s.n * l.values * s.c).make("filled", heads_bytes).drop("zeros");
  const HeadNames names{{"queries", "keys", "filled"}, "out"};
  forward_heads(forward, s, names);
  forward.make("attended", s.n * l.values * s.c);
  for (const char* name : {"out", "filled", "keys", "queries", "qkv"}) forward.drop(name);
  backward.make("d.out", heads_bytes).drop("d.attended");
  backward_heads(backward, s, names);
  backward.make("d.kv", kv_bytes).drop("d.v").pass(kv_bytes).drop("d.k");
  backward.make("d.turned", turned_bytes).pass(3 * turned_bytes).make("d.heads", heads_bytes);
  backward.drop("d.turned").pass(heads_bytes).drop("d.q");
  backward.make("d.qkv", entering_bytes).pass(entering_bytes).drop("d.kv").pass(entering_bytes);
  backward.drop("d.heads");
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

Piece attention_piece(const Sizes& s, const Latent& l, std::int64_t entering) {
  Piece piece = rotary_attention(s, false);
  piece.channels = l.values;
  add_latent_attention_events(piece, s, l, entering);
  return piece;
}

program::Unit block_unit(const Sizes& s, const spec::Model& m, const StepShape& shape, std::int64_t layer) {
  const Latent l(m, shape.layout);
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  const Piece heads = heads_piece(s, l);
  Piece out = product_and_residual("out", s, l.values, 0);
  add_residual_events(out, s, {}, "attended", l.values, "middle");
  program::Unit unit{
      cat("block.", layer),
      {made_of(latent_piece(s, l),
               {step("norm_1", {"hidden"}, {"entering_1"}, names({"input_layernorm.weight"})),
                step("latent", {"entering_1"}, {"latent"},
                     names({"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight",
                            "self_attn.q_a_layernorm.weight", "self_attn.kv_a_layernorm.weight"}))}),
       made_of(heads,
               {enter("latent"), step("heads", {"latent"}, {"qkv"},
                                      names({"self_attn.q_b_proj.weight", "self_attn.kv_b_proj.weight"}))}),
       made_of(attention_piece(s, l, heads.channels), {step("attention", {"qkv"}, {"attended"})}),
       made_of(out,
               {step("out", {"attended"}, {"attended_sums"}, names({"self_attn.o_proj.weight"})),
                leave("attended_sums"), linear_step("add_1", {"attended_sums", "hidden"}, {"middle"})})}};
  for (Piece& piece : feed_forward_pieces(m, shape, layer)) unit.pieces.push_back(std::move(piece));
  settle(unit);
  return unit;
}

PlacedParameters attention_parameters(const spec::Model& m, std::int64_t layer) {
  const std::int64_t kept = m.head_size() - m.turned_size();
  const auto matrix = [&](const char* name, std::int64_t out, std::int64_t in, const program::Init& how) {
    return Parameter{
        .name = cat("model.layers.", layer, ".self_attn.", name, ".weight"), .shape = {out, in}, .init = how};
  };
  const program::Init init = normal(m.init_std);
  return {{matrix("q_a_proj", m.q_rank, m.hidden, init)},
          {matrix("kv_a_proj_with_mqa", m.kv_rank + m.turned_size(), m.hidden, init)},
          rows_cut(matrix("q_b_proj", m.query_size(), m.q_rank, init)),
          rows_cut(matrix("kv_b_proj", m.heads * (kept + m.value_size()), m.kv_rank, init)),
          columns_cut(matrix("o_proj", m.hidden, m.heads * m.value_size(), residual_normal(m)))};
}

PlacedParameters block_vectors(const spec::Model& m, std::int64_t layer) {
  const std::string block = cat("model.layers.", layer, ".");
  return {{norm_weight(block + "input_layernorm", m.hidden)},
          {norm_weight(block + "self_attn.q_a_layernorm", m.q_rank)},
          {norm_weight(block + "self_attn.kv_a_layernorm", m.kv_rank)},
          {norm_weight(block + "post_attention_layernorm", m.hidden)}};
}

}  // namespace

ModelPlan deepseek_plan(const spec::Model& model, const StepShape& shape) {
  return decoder_plan(model, shape, {block_unit, attention_parameters, block_vectors});
}

}  // namespace tessera::plan
