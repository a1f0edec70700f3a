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
  explicit Latent(const spec::Run& run)
      : width(run.model.q_rank + run.model.kv_rank + run.model.turned_size()),
        q(run.model.q_rank),
        kv(run.model.kv_rank),
        heads_kv(run.model.heads / run.layout.tp *
                 (run.model.head_size() - run.model.turned_size() + run.model.value_size())),
        values(run.model.heads / run.layout.tp * run.model.value_size()) {}
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
  AllocationEvents forward, backward;
  forward_norm(forward, s, false, "x", "normed_1");
  forward.make("latent.raw", s.r * l.width * s.c).tape("normed_1").tape("latent.raw").drop("normed_1");
  forward.make("latent.scaled", s.r * l.width * s.a).tape("latent.scaled").drop("latent.scaled");
  forward.make("latent", s.r * l.width * s.c).drop("latent.raw");
  backward.make("d.latent.raw", s.r * l.width * s.a).pass(s.r * l.width * s.a).drop("d.latent");
  backward.untape("latent.scaled").untape("latent.raw").make("d.normed_1", s.r * s.h * s.c);
  backward.defer("d.latent.raw", s.r * l.width * s.c, "normed_1", s.r * s.h * s.c, 0);
  backward.untape("normed_1").drop("d.latent.raw");
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
  const std::int64_t bytes = s.n * l.width * s.c;
  AllocationEvents forward, backward;
  forward.make("latent.all", bytes)
      .drop("latent")
      .make("q", s.n * s.q * s.c)
      .make("kv", s.n * l.heads_kv * s.c);
  forward.tape("latent.all").make("qkv", s.n * piece.channels * s.c).drop("latent.all").drop("q").drop("kv");
  backward.make("d.parts", s.n * made * s.c).drop("d.qkv").make("d.latent.all", bytes);
  backward.defer("d.parts", s.n * made * s.c, "latent.all", bytes, 0).untape("latent.all").drop("d.parts");
  backward.make("d.latent", s.r * l.width * s.c).drop("d.latent.all");
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
  return piece;
}

// Values are filled up to the width of keys.
Piece attention_piece(const Sizes& s, const Latent& l, program::Dtype compute) {
  Piece piece = rotary_attention(s, false, compute);
  piece.channels = l.values;
  add_attention_events(piece, s, /*has_rotary=*/true, /*has_qk_norm=*/false);
  return piece;
}

program::Unit block_unit(const Sizes& s, const spec::Run& run, std::int64_t layer) {
  const Latent l(run);
  const auto names = [&](std::vector<std::string> list) { return in_layer(layer, std::move(list)); };
  Piece out = product_and_residual("out", s, l.values, 0);
  add_residual_events(out, s, {}, "attended", l.values, "middle");
  program::Unit unit{
      cat("block.", layer),
      {made_of(latent_piece(s, l),
               {step("norm_1", {"hidden"}, {"entering_1"}, names({"input_layernorm.weight"})),
                step("latent", {"entering_1"}, {"latent"},
                     names({"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight",
                            "self_attn.q_a_layernorm.weight", "self_attn.kv_a_layernorm.weight"}))}),
       made_of(heads_piece(s, l),
               {enter("latent"), step("heads", {"latent"}, {"qkv"},
                                      names({"self_attn.q_b_proj.weight", "self_attn.kv_b_proj.weight"}))}),
       made_of(attention_piece(s, l, compute_dtype(run.layout.precision)),
               {step("attention", {"qkv"}, {"attended"})}),
       made_of(out, {step("out", {"attended"}, {"attended_sums"}, names({"self_attn.o_proj.weight"})),
                     leave("attended_sums"), step("add_1", {"attended_sums", "hidden"}, {"middle"})})}};
  for (Piece& piece : feed_forward_pieces(run, layer)) unit.pieces.push_back(std::move(piece));
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

Blueprint deepseek_blueprint(const spec::Run& run) {
  return decoder_blueprint(run, {block_unit, attention_parameters, block_vectors});
}

}  // namespace tessera::plan
