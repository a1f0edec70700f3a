#include "tessera/plan/model/moments.hpp"

#include <algorithm>

#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::plan {

using Act = program::Moment::Act;

Moments& Moments::make(const std::string& storage, std::int64_t bytes) {
  list_.push_back({.act = Act::make, .storage = storage, .bytes = bytes});
  return *this;
}
Moments& Moments::drop(const std::string& storage) {
  list_.push_back({.act = Act::drop, .storage = storage});
  return *this;
}
Moments& Moments::pass(std::int64_t bytes) {
  return bytes > 0 ? make("scratch", bytes).drop("scratch") : *this;
}
Moments& Moments::tape(const std::string& storage) {
  list_.push_back({.act = Act::tape, .storage = storage});
  return *this;
}
Moments& Moments::untape(const std::string& storage) {
  list_.push_back({.act = Act::untape, .storage = storage});
  return *this;
}
Moments& Moments::sum(const std::string& gradient, const std::string& other, std::int64_t bytes) {
  list_.push_back({.act = Act::sum, .storage = gradient, .bytes = bytes, .other = other});
  return *this;
}
Moments& Moments::defer(const std::string& gradient, std::int64_t bytes, const std::string& input,
                        std::int64_t input_bytes, std::int64_t scratch_bytes) {
  list_.push_back({.act = Act::defer,
                   .storage = gradient,
                   .bytes = bytes,
                   .other = input,
                   .other_bytes = input_bytes,
                   .scratch_bytes = scratch_bytes});
  return *this;
}

namespace {

bool is_narrow(const Sizes& s) { return s.c < s.a; }

// In 16 bits the product packs its second factor.
std::int64_t packed_bytes(const Sizes& s, const ProductSizes& sizes) {
  return is_narrow(s) ? sizes.in * sizes.out * s.c : 0;
}

// The weight's gradient is made in 16 bits, widened, and added; column sums of a bias are taken over a wide
// copy.
std::int64_t weight_scratch(const Sizes& s, const ProductSizes& sizes) {
  if (!is_narrow(s)) return 0;
  const std::int64_t weight = sizes.in * sizes.out;
  const std::int64_t packed = s.n * s.c * (128 + std::min<std::int64_t>(sizes.out, 256) / 2);
  return std::max(weight * s.c + std::max(weight * s.a, packed), sizes.has_bias ? s.n * sizes.out * s.a : 0);
}

}  // namespace

void forward_product(Moments& moments, const Sizes& s, const ProductNames& names, const ProductSizes& sizes) {
  moments.make(names.out, s.n * sizes.out * s.c).pass(packed_bytes(s, sizes)).tape(names.x);
}

void backward_product(Moments& moments, const Sizes& s, const ProductNames& names,
                      const ProductSizes& sizes) {
  moments.make("d." + names.x, s.n * sizes.in * s.c)
      .pass(packed_bytes(s, sizes))
      .defer(names.gradient, s.n * sizes.out * s.c, names.x, s.n * sizes.in * s.c, weight_scratch(s, sizes))
      .untape(names.x);
}

// Without a mean it is no kernel of its own but made of smaller ones, in wide numbers.
void forward_norm(Moments& moments, const Sizes& s, bool has_mean, const std::string& x,
                  const std::string& normed) {
  const std::string statistics = normed + ".statistics", scaled = normed + ".scaled", wide = normed + ".wide";
  const std::int64_t narrow_bytes = s.r * s.h * s.c, wide_bytes = s.r * s.h * s.a;
  if (has_mean) {
    moments.make(normed, narrow_bytes).make(statistics, 2 * s.r * s.a).tape(x).tape(statistics);
    moments.drop(statistics);
    return;
  }
  if (is_narrow(s)) moments.make(wide, wide_bytes).tape(wide);
  moments.pass(wide_bytes).make(statistics, s.r * s.a).tape(statistics);
  moments.make(scaled, wide_bytes).tape(scaled);
  if (is_narrow(s)) {
    moments.make("scratch", wide_bytes).drop(scaled).drop(wide).make(normed, narrow_bytes).drop("scratch");
  } else {
    moments.tape(x).make(normed, narrow_bytes).drop(scaled);
  }
  moments.drop(statistics);
}

void backward_norm(Moments& moments, const Sizes& s, bool has_mean, const std::string& x,
                   const std::string& normed, const std::string& residual) {
  const std::string gradient = "d." + normed, dx = "d." + x, part = residual.empty() ? dx : "part";
  const std::int64_t narrow_bytes = s.r * s.h * s.c, wide_bytes = s.r * s.h * s.a;
  const auto add_residual = [&] {
    if (!residual.empty()) moments.sum(dx, residual, narrow_bytes).drop("part");
  };
  if (has_mean) {
    moments.make(part, narrow_bytes).drop(gradient).untape(x).untape(normed + ".statistics");
    return add_residual();
  }
  if (is_narrow(s)) moments.make("wide", wide_bytes).drop(gradient);
  moments.make("a", wide_bytes).make("b", wide_bytes).drop("a").drop(is_narrow(s) ? "wide" : gradient);
  moments.untape(normed + ".scaled");
  const std::string found = is_narrow(s) ? "found" : part;
  moments.make("a", wide_bytes).make(found, wide_bytes).drop("a").drop("b");
  if (!is_narrow(s)) add_residual();
  moments.untape(normed + ".statistics");
  for (const char* name : {"a", "b", "e", "f"}) moments.make(name, wide_bytes);
  for (const char* name : {"e", "b", "a"}) moments.drop(name);
  moments.untape(is_narrow(s) ? normed + ".wide" : x).drop("f");
  if (is_narrow(s)) {
    moments.make(part, narrow_bytes).drop(found);
    add_residual();
  }
}

namespace {
bool cuts_stream(const Sizes& s) { return s.r < s.n; }
std::string all_of(const std::string& x) { return x + ".all"; }
}  // namespace

std::string forward_enter(Moments& moments, const Sizes& s, const std::string& x) {
  if (!cuts_stream(s)) return x;
  moments.make(all_of(x), s.n * s.h * s.c).drop(x);
  return all_of(x);
}

void backward_enter(Moments& moments, const Sizes& s, const std::string& x) {
  if (cuts_stream(s))
    moments.make("d." + x, s.r * s.h * s.c).drop("d." + all_of(x));
  else if (s.tp > 1)
    moments.pass(s.n * s.h * s.c);  // a copy, in which the ranks' parts are summed
}

std::string forward_leave(Moments& moments, const Sizes& s, const std::string& sums) {
  if (s.tp == 1) return sums;
  moments.make(sums + ".left", s.r * s.h * s.c).drop(sums);
  return sums + ".left";
}

std::string backward_leave(Moments& moments, const Sizes& s, const std::string& gradient) {
  if (!cuts_stream(s)) return gradient;
  moments.make(all_of(gradient), s.n * s.h * s.c);
  return all_of(gradient);
}

void drop_left(Moments& moments, const Sizes& s, const std::string& gradient) {
  if (cuts_stream(s)) moments.drop(all_of(gradient));
}

void forward_dropout(Moments& moments, const Sizes& s, const std::string& x, const std::string& out) {
  if (s.drops) moments.make(out, s.r * s.h * s.c).drop(x);
}

namespace {
// The kernel's blocks: rows of queries by columns of keys, as ATen chooses them.
struct Block {
  std::int64_t rows, columns;
  explicit Block(const Sizes& s)
      : rows(std::min<std::int64_t>(s.sequence >= 768   ? 256
                                    : s.sequence >= 192 ? 64
                                                        : 32,
                                    s.sequence)),
        columns(std::min<std::int64_t>(512, s.sequence)) {}
};
}  // namespace

// Queries and keys of n tokens, normed, one after the other, in wide numbers.
namespace {
std::int64_t turned_bytes(const Sizes& s, std::int64_t element) { return s.n * (s.q + s.k) * element; }

void forward_head_norm(Moments& moments, const Sizes& s) {
  if (is_narrow(s)) moments.make("heads.wide", turned_bytes(s, s.a));
  moments.make("heads.squares", turned_bytes(s, s.a));
  moments.make("heads.statistics", s.n * (s.heads + s.kv_heads) * s.a).drop("heads.squares");
  moments.make("heads.normed", turned_bytes(s, s.c));
  if (is_narrow(s)) moments.drop("heads.wide");
}

void backward_head_norm(Moments& moments, const Sizes& s) {
  moments.make("d.turned", turned_bytes(s, s.c));
  if (is_narrow(s)) moments.make("d.wide", turned_bytes(s, s.a)).drop("d.turned");
  moments.make("heads.scaled", turned_bytes(s, s.a)).pass(turned_bytes(s, s.a)).drop("heads.scaled");
  moments.make("d.qkv", s.n * (s.q + 2 * s.k) * s.c).drop(is_narrow(s) ? "d.wide" : "d.turned");
}
}  // namespace

namespace {
// With documents the kernel is given what to add to each score of a query and a key of this place: zero, or
// minus infinity. Two masks of a byte per score come before it. Where a micro-batch has no end of a document
// none is made; that is not known before it is read.
void make_mask(Moments& moments, const Sizes& s) {
  if (!s.has_documents) return;
  const std::int64_t positions = s.sequence / s.cp_ring, scores = s.samples * positions * positions;
  moments.make("seen", 2 * scores).make("mask", scores * s.c).drop("seen");
}
void drop_mask(Moments& moments, const Sizes& s) {
  if (s.has_documents) moments.drop("mask");
}
}  // namespace

namespace {
// Heads for positions: what the kernel reads and makes is kept besides what is handed on.
std::int64_t exchanged_bytes(const Sizes& s) {
  const std::int64_t kv_heads = program::exchanged_kv_heads(s.heads, s.kv_heads, s.cp_heads);
  return s.n * (s.q + 2 * kv_heads * (s.q / s.heads)) * s.c;
}

void forward_exchanged_attention(Moments& moments, const Sizes& s, std::int64_t scratch) {
  moments.pass(2 * exchanged_bytes(s)).make("exchanged", exchanged_bytes(s));
  make_mask(moments, s);
  moments.make("attended.longer", s.n * s.q * s.c).make("row_sums", s.n * s.heads * s.a).pass(scratch);
  drop_mask(moments, s);
  for (const char* name : {"exchanged", "attended.longer", "row_sums"}) moments.tape(name);
  moments.pass(s.n * s.q * s.c).make("attended", s.n * s.q * s.c);
  for (const char* name : {"attended.longer", "row_sums", "exchanged", "turned", "qkv"}) moments.drop(name);
}

void backward_exchanged_attention(Moments& moments, const Sizes& s, std::int64_t scratch) {
  moments.pass(s.n * s.q * s.c).make("d.longer", s.n * s.q * s.c).drop("d.attended");
  make_mask(moments, s);
  moments.make("d.exchanged", exchanged_bytes(s)).pass(scratch);
  drop_mask(moments, s);
  moments.drop("d.longer");
  for (const char* name : {"exchanged", "row_sums", "attended.longer"}) moments.untape(name);
  moments.pass(2 * exchanged_bytes(s));
  moments.make("d.q", s.n * s.q * s.c).make("d.k", s.n * s.k * s.c).make("d.v", s.n * s.k * s.c);
  moments.drop("d.exchanged");
}
}  // namespace

void forward_attention(Moments& moments, const Sizes& s, const HeadShape& shape) {
  const Block block(s);
  std::int64_t scratch = (block.rows * block.columns + 2 * block.rows + block.rows * s.q / s.heads) * s.a;
  if (is_narrow(s))
    scratch += block.rows * block.columns * s.c + 2 * s.n * s.k * s.c;  // keys and values packed
  if (shape.has_norm) forward_head_norm(moments, s);
  if (shape.has_rotary) moments.make("turned", turned_bytes(s, s.c));
  if (shape.has_norm) moments.drop("heads.normed").tape("heads.statistics").drop("heads.statistics");
  if (s.cp_heads > 1) {
    if (shape.has_norm) moments.tape("qkv");
    return forward_exchanged_attention(moments, s, scratch);
  }
  make_mask(moments, s);
  moments.make("attended", s.n * s.q * s.c).make("row_sums", s.n * s.heads * s.a).pass(scratch);
  drop_mask(moments, s);
  for (const char* name : {"turned", "qkv", "attended", "row_sums"}) moments.tape(name);
  moments.drop("row_sums").drop("turned").drop("qkv");
}

void backward_attention(Moments& moments, const Sizes& s, const HeadShape& shape) {
  const Block block(s);
  const std::int64_t scratch = 2 * block.rows * block.columns * (s.a + (is_narrow(s) ? s.c : 0));
  if (s.cp_heads > 1) {
    backward_exchanged_attention(moments, s, scratch);
  } else {
    make_mask(moments, s);
    moments.make("d.q", s.n * s.q * s.c).make("d.k", s.n * s.k * s.c).make("d.v", s.n * s.k * s.c);
    moments.pass(scratch);
    drop_mask(moments, s);
    moments.drop("d.attended");
    if (shape.has_rotary) moments.untape("turned");
    moments.untape("row_sums").untape("attended");
  }
  if (shape.has_norm) {
    backward_head_norm(moments, s);
    moments.untape("heads.statistics").untape("qkv");
  } else {
    if (s.cp_heads == 1) moments.untape("qkv");
    moments.make("d.qkv", s.n * (s.q + 2 * s.k) * s.c);
  }
  moments.drop("d.q").drop("d.k").drop("d.v");
}

// Logits, dx and dW are multiplied out chunk by chunk in the forward, dx and dW are kept, and the backward
// only scales them.
void forward_loss(Moments& moments, const Sizes& s) {
  const std::string x = forward_enter(moments, s, "normed");
  const std::int64_t rows = std::min(s.n, program::kLossChunkTokens);
  const std::int64_t narrow = is_narrow(s) ? s.c : 0, weight = s.v * s.h;
  moments.make("dx", s.n * s.h * s.c).make("dw", weight * s.a);
  moments.pass(rows * s.v * (2 * s.a + narrow));
  // In 16 bits the chunk's dW is made narrow, then widened to be added.
  moments.pass(rows * s.v * (s.a + narrow) +
               std::max(rows * s.h * s.c, narrow ? weight * (narrow + s.a) : 0));
  moments.tape("dx").tape("dw").drop("dx").drop("dw").drop(x);
}

void backward_loss(Moments& moments, const Sizes& s) {
  moments.make(s.r < s.n ? "d.normed.all" : "d.normed", s.n * s.h * s.c);
  moments.defer("dw", s.v * s.h * s.a, "", 0, 0).untape("dx").untape("dw");
  backward_enter(moments, s, "normed");
}

}  // namespace tessera::plan
