#include "tessera/plan/model/block_events.hpp"

#include <algorithm>

namespace tessera::plan {
namespace {

// Bytes of the blocks of a product, on one rank.
struct BlockBytes {
  std::int64_t x, y, w, dw;
  BlockBytes(const Sizes& s, const ProductSizes& sizes)
      : x(s.n * sizes.in * s.c),
        y(s.n * sizes.out * s.c),
        w(sizes.in * sizes.out * s.c),
        dw(sizes.in * sizes.out * s.a) {}
};

// Blocks of others that a rank holds besides its own: one that is multiplied and one on its way, or all.
std::int64_t others(const Sizes& s) {
  return s.blocks.gathers ? s.blocks.q : std::min<std::int64_t>(2, s.blocks.q - 1);
}

}  // namespace

void forward_block_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                           const ProductSizes& sizes) {
  const BlockBytes bytes(s, sizes);
  const std::int64_t q = s.blocks.q;
  const std::string made = sizes.has_bias ? names.out + ".product" : names.out;
  if (s.blocks.is_cube) {
    events.make("x.blocks", q * bytes.x).make("w.blocks", bytes.w).make("y.sums", q * bytes.y);
    events.make(made, bytes.y).drop("y.sums");
  } else {
    events.make("x.blocks", others(s) * bytes.x).make("w.blocks", others(s) * bytes.w).make(made, bytes.y);
  }
  events.pass(s.is_narrow() ? bytes.w : 0).drop("x.blocks").drop("w.blocks").tape(names.x);
  if (sizes.has_bias) events.make(names.out, bytes.y).drop(made);
}

void backward_block_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                            const ProductSizes& sizes, const std::string& of_x) {
  const BlockBytes bytes(s, sizes);
  const std::int64_t q = s.blocks.q, narrow_w = s.is_narrow() ? bytes.w : 0;
  const std::string dx = of_x.empty() ? "d." + names.x : of_x, dw = names.out + ".dw";
  if (sizes.has_bias) events.pass(s.is_narrow() ? s.n * sizes.out * s.a : 0);
  if (s.blocks.is_cube) {
    events.make("dy.blocks", q * bytes.y).make("w.blocks", bytes.w).make("dx.sums", q * bytes.x);
    events.pass(bytes.x).make(dx, bytes.x).drop("dx.sums").drop("w.blocks");
    events.make("x.blocks", q * bytes.x).make("dw.sums", bytes.dw).pass(narrow_w / q + bytes.dw / q);
    events.make(dw, bytes.dw / q).drop("dw.sums").drop("x.blocks").drop("dy.blocks");
    events.defer(dw, bytes.dw / q, "", 0, 0);
  } else {
    // A sum, what is added to it, and what is on its way to another.
    const std::int64_t parts = s.blocks.gathers ? q + 1 : 2;
    events.make("x.blocks", others(s) * bytes.x).make("w.blocks", others(s) * bytes.w);
    events.make(dx, bytes.x).make("dx.sums", parts * bytes.x);
    events.make(dw, bytes.dw).make("dw.sums", (parts - 1) * bytes.dw + narrow_w);
    for (const char* name : {"x.blocks", "w.blocks", "dx.sums", "dw.sums"}) events.drop(name);
    events.defer(dw, bytes.dw, "", 0, 0);
  }
  events.drop(dw).untape(names.x);
}

void forward_block_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                        const std::string& normed) {
  const std::string statistics = normed + ".statistics";
  const std::int64_t narrow_bytes = s.n * s.h * s.c, wide_bytes = s.n * s.h * s.a;
  if (s.is_narrow()) events.make("wide", wide_bytes);
  events.pass((has_mean ? 2 : 1) * wide_bytes).make(statistics, (has_mean ? 2 : 1) * s.n * s.a);
  if (s.is_narrow())
    events.make("scaled", wide_bytes).make(normed, narrow_bytes).drop("scaled").drop("wide");
  else
    events.make(normed, narrow_bytes);
  events.tape(x).tape(statistics).drop(statistics);
}

void backward_block_norm(AllocationEvents& events, const Sizes& s, const std::string& x,
                         const std::string& normed, const std::string& residual) {
  const std::string gradient = "d." + normed, dx = "d." + x, part = residual.empty() ? dx : "part";
  const std::int64_t narrow_bytes = s.n * s.h * s.c, wide_bytes = s.n * s.h * s.a;
  if (s.is_narrow()) events.pass(2 * wide_bytes).make("wide", wide_bytes);
  const std::string found = s.is_narrow() ? "g" : part;
  events.make("n", wide_bytes).pass(wide_bytes).make(found, wide_bytes);
  if (s.is_narrow()) events.drop("wide");
  events.pass(wide_bytes);
  if (s.is_narrow()) events.make(part, narrow_bytes).drop("g");
  events.drop("n").drop(gradient).untape(x).untape(normed + ".statistics");
  if (!residual.empty()) events.sum(dx, residual, narrow_bytes).drop("part");
}

void forward_block_lookup(AllocationEvents& events, const Sizes& s, const std::string& out) {
  const std::int64_t all = s.blocks.q * s.n * s.h * s.c, part = s.n * s.h * s.c;
  const std::int64_t tokens = s.n * s.blocks.q * (s.blocks.is_cube ? s.blocks.q : 1);
  events.make("table.index", tokens * (kIndexBytes + 1)).pass(tokens * kIndexBytes).tape("table.index");
  events.make("table.rows", all).make("table.exchanged", all);
  if (s.blocks.is_cube) events.make("table.turned", all);
  events.make(out, part);
  if (s.blocks.is_cube) events.drop("table.turned");
  events.drop("table.exchanged").drop("table.rows").drop("table.index");
}

void backward_block_lookup(AllocationEvents& events, const Sizes& s, const std::string& gradient) {
  const std::int64_t all = s.blocks.q * s.n * s.h * s.c, widened = s.is_narrow() ? all / s.c * s.a : 0;
  events.make(gradient + ".gathered", all);
  if (s.blocks.is_cube) events.make("turned", all).drop(gradient + ".gathered");
  events.make("d.table.rows", all);
  events.drop(s.blocks.is_cube ? "turned" : gradient + ".gathered");
  events.defer("d.table.rows", all, "table.index", 0, widened).drop("d.table.rows").untape("table.index");
}

// See VocabularyProduct.
void forward_block_loss(AllocationEvents& events, const Sizes& s) {
  const std::int64_t q = s.blocks.q, x = s.n * s.h * s.c, table = s.v * s.h * s.c, wide = s.v * s.h * s.a,
                     narrow = s.is_narrow() ? s.c : 0;
  const bool is_cube = s.blocks.is_cube;
  const std::int64_t rows =
      std::min(s.n, is_cube ? std::max<std::int64_t>(1, s.loss_chunk / q) : s.loss_chunk);
  if (is_cube) events.make("x.blocks", q * x);
  events.make("w.blocks", (is_cube ? 1 : q) * table);
  events.make("dx.blocks", (is_cube ? q : 1) * x).make("dw.blocks", (is_cube ? 1 : q) * wide);
  events.make("chunk", q * rows * s.h * s.c);
  if (is_cube) events.pass((q + 1) * rows * s.v * s.c);
  events.pass(rows * s.v * (2 * s.a + narrow));
  events.make("d.logits", rows * s.v * (s.a + narrow));
  if (is_cube) events.make("d.gathered", q * rows * s.v * s.c);
  events.pass(q * rows * s.h * s.c + std::max(rows * s.h * s.c, narrow ? wide / (is_cube ? q : 1) : 0));
  if (is_cube) events.drop("d.gathered");
  events.drop("d.logits").drop("chunk");
  if (is_cube) events.make("dx", x);
  events.make("dw", is_cube ? wide / q : wide).drop("dw.blocks");
  events.tape(is_cube ? "dx" : "dx.blocks").tape("dw").drop("dx.blocks").drop("dw").drop("w.blocks");
  if (is_cube) events.drop("dx").drop("x.blocks");
  events.drop("normed");
}

void backward_block_loss(AllocationEvents& events, const Sizes& s) {
  const bool is_cube = s.blocks.is_cube;
  events.make("d.normed", s.n * s.h * s.c);
  events.defer("dw", s.v * s.h * s.a / (is_cube ? s.blocks.q : 1), "", 0, 0);
  events.untape(is_cube ? "dx" : "dx.blocks").untape("dw");
}

}  // namespace tessera::plan
