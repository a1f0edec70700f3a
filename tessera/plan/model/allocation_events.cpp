#include "tessera/plan/model/allocation_events.hpp"

#include <algorithm>

#include "tessera/plan/model/block_events.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::plan {

using Act = program::AllocationEvent::Act;

AllocationEvents& AllocationEvents::make(const std::string& storage, std::int64_t bytes) {
  list_.push_back({.act = Act::make, .storage = storage, .bytes = bytes});
  return *this;
}
AllocationEvents& AllocationEvents::drop(const std::string& storage) {
  list_.push_back({.act = Act::drop, .storage = storage});
  return *this;
}
AllocationEvents& AllocationEvents::pass(std::int64_t bytes) {
  return bytes > 0 ? make("scratch", bytes).drop("scratch") : *this;
}
AllocationEvents& AllocationEvents::tape(const std::string& storage) {
  list_.push_back({.act = Act::tape, .storage = storage});
  return *this;
}
AllocationEvents& AllocationEvents::untape(const std::string& storage) {
  list_.push_back({.act = Act::untape, .storage = storage});
  return *this;
}
AllocationEvents& AllocationEvents::sum(const std::string& gradient, const std::string& other,
                                        std::int64_t bytes) {
  list_.push_back({.act = Act::sum, .storage = gradient, .bytes = bytes, .other = other});
  return *this;
}
AllocationEvents& AllocationEvents::defer(const std::string& gradient, std::int64_t bytes,
                                          const std::string& input, std::int64_t input_bytes,
                                          std::int64_t scratch_bytes) {
  list_.push_back({.act = Act::defer,
                   .storage = gradient,
                   .bytes = bytes,
                   .other = input,
                   .other_bytes = input_bytes,
                   .scratch_bytes = scratch_bytes});
  return *this;
}

namespace {

// In 16 bits the product packs its second factor.
std::int64_t packed_bytes(const Sizes& s, const ProductSizes& sizes) {
  return s.is_narrow() ? sizes.in * sizes.out * s.c : 0;
}

// The weight's gradient is made in 16 bits, widened, and added; column sums of a bias are taken over a wide
// copy.
std::int64_t weight_scratch(const Sizes& s, const ProductSizes& sizes) {
  if (!s.is_narrow()) return 0;
  const std::int64_t weight = sizes.in * sizes.out;
  const std::int64_t packed = s.n * s.c * (128 + std::min<std::int64_t>(sizes.out, 256) / 2);
  return std::max(weight * s.c + std::max(weight * s.a, packed), sizes.has_bias ? s.n * sizes.out * s.a : 0);
}

}  // namespace

void forward_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                     const ProductSizes& sizes, bool tapes) {
  if (s.blocks.move()) return forward_block_product(events, s, names, sizes);
  events.make(names.out, s.n * sizes.out * s.c).pass(packed_bytes(s, sizes));
  if (tapes) events.tape(names.x);
}

void backward_product(AllocationEvents& events, const Sizes& s, const ProductNames& names,
                      const ProductSizes& sizes) {
  if (s.blocks.move()) return backward_block_product(events, s, names, sizes);
  events.make("d." + names.x, s.n * sizes.in * s.c)
      .pass(packed_bytes(s, sizes))
      .defer(names.gradient, s.n * sizes.out * s.c, names.x, s.n * sizes.in * s.c, weight_scratch(s, sizes))
      .untape(names.x);
}

// Without a mean it is no kernel of its own but made of smaller ones, in wide numbers.
void forward_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                  const std::string& normed) {
  if (s.blocks.move()) return forward_block_norm(events, s, has_mean, x, normed);
  const std::string statistics = normed + ".statistics", scaled = normed + ".scaled", wide = normed + ".wide";
  const std::int64_t narrow_bytes = s.r * s.h * s.c, wide_bytes = s.r * s.h * s.a;
  if (has_mean) {
    events.make(normed, narrow_bytes).make(statistics, 2 * s.r * s.a).tape(x).tape(statistics);
    events.drop(statistics);
    return;
  }
  if (s.is_narrow()) events.make(wide, wide_bytes).tape(wide);
  events.pass(wide_bytes).make(statistics, s.r * s.a).tape(statistics);
  events.make(scaled, wide_bytes).tape(scaled);
  if (s.is_narrow()) {
    events.make("scratch", wide_bytes).drop(scaled).drop(wide).make(normed, narrow_bytes).drop("scratch");
  } else {
    events.tape(x).make(normed, narrow_bytes).drop(scaled);
  }
  events.drop(statistics);
}

void backward_norm(AllocationEvents& events, const Sizes& s, bool has_mean, const std::string& x,
                   const std::string& normed, const std::string& residual) {
  if (s.blocks.move()) return backward_block_norm(events, s, x, normed, residual);
  const std::string gradient = "d." + normed, dx = "d." + x, part = residual.empty() ? dx : "part";
  const std::int64_t narrow_bytes = s.r * s.h * s.c, wide_bytes = s.r * s.h * s.a;
  const auto add_residual = [&] {
    if (!residual.empty()) events.sum(dx, residual, narrow_bytes).drop("part");
  };
  if (has_mean) {
    events.make(part, narrow_bytes).drop(gradient).untape(x).untape(normed + ".statistics");
    return add_residual();
  }
  if (s.is_narrow()) events.make("wide", wide_bytes).drop(gradient);
  events.make("a", wide_bytes).make("b", wide_bytes).drop("a").drop(s.is_narrow() ? "wide" : gradient);
  events.untape(normed + ".scaled");
  const std::string found = s.is_narrow() ? "found" : part;
  events.make("a", wide_bytes).make(found, wide_bytes).drop("a").drop("b");
  if (!s.is_narrow()) add_residual();
  events.untape(normed + ".statistics");
  for (const char* name : {"a", "b", "e", "f"}) events.make(name, wide_bytes);
  for (const char* name : {"e", "b", "a"}) events.drop(name);
  events.untape(s.is_narrow() ? normed + ".wide" : x).drop("f");
  if (s.is_narrow()) {
    events.make(part, narrow_bytes).drop(found);
    add_residual();
  }
}

namespace {
bool cuts_stream(const Sizes& s) { return s.r < s.n; }
std::string all_of(const std::string& x) { return x + ".all"; }
}  // namespace

std::string forward_enter(AllocationEvents& events, const Sizes& s, const std::string& x) {
  if (!cuts_stream(s)) return x;
  events.make(all_of(x), s.n * s.h * s.c).drop(x);
  return all_of(x);
}

void backward_enter(AllocationEvents& events, const Sizes& s, const std::string& x) {
  if (cuts_stream(s))
    events.make("d." + x, s.r * s.h * s.c).drop("d." + all_of(x));
  else if (s.tp > 1)
    events.pass(s.n * s.h * s.c);  // a copy, in which the ranks' parts are summed
}

std::string forward_leave(AllocationEvents& events, const Sizes& s, const std::string& sums) {
  if (s.tp == 1) return sums;
  events.make(sums + ".left", s.r * s.h * s.c).drop(sums);
  return sums + ".left";
}

std::string backward_leave(AllocationEvents& events, const Sizes& s, const std::string& gradient) {
  if (!cuts_stream(s)) return gradient;
  events.make(all_of(gradient), s.n * s.h * s.c);
  return all_of(gradient);
}

void drop_left(AllocationEvents& events, const Sizes& s, const std::string& gradient) {
  if (cuts_stream(s)) events.drop(all_of(gradient));
}

void forward_dropout(AllocationEvents& events, const Sizes& s, const std::string& x, const std::string& out) {
  if (s.drops) events.make(out, s.r * s.h * s.c).drop(x);
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

void forward_head_norm(AllocationEvents& events, const Sizes& s) {
  if (s.is_narrow()) events.make("heads.wide", turned_bytes(s, s.a));
  events.make("heads.squares", turned_bytes(s, s.a));
  events.make("heads.statistics", s.n * (s.heads + s.kv_heads) * s.a).drop("heads.squares");
  events.make("heads.normed", turned_bytes(s, s.c));
  if (s.is_narrow()) events.drop("heads.wide");
}

void backward_head_norm(AllocationEvents& events, const Sizes& s) {
  events.make("d.turned", turned_bytes(s, s.c));
  if (s.is_narrow()) events.make("d.wide", turned_bytes(s, s.a)).drop("d.turned");
  events.make("heads.scaled", turned_bytes(s, s.a)).pass(turned_bytes(s, s.a)).drop("heads.scaled");
  events.make("d.qkv", s.n * (s.q + 2 * s.k) * s.c).drop(s.is_narrow() ? "d.wide" : "d.turned");
}
}  // namespace

namespace {
// With documents attention goes from one to the next: what the kernel makes of one is copied to its place and
// dropped. How long they are is not known before they are read: one sample, all of a length, is the most.
std::int64_t document_bytes(const Sizes& s, std::int64_t bytes_of_all) {
  return s.has_documents ? bytes_of_all / s.samples : 0;
}
std::int64_t attended_document_bytes(const Sizes& s) {
  return document_bytes(s, s.n * (s.q * s.c + s.heads * s.a));
}
std::int64_t document_gradient_bytes(const Sizes& s, std::int64_t kv_width) {
  return document_bytes(s, s.n * (s.q + 2 * kv_width) * s.c);
}
}  // namespace

namespace {
// Heads for positions: what the kernel reads and makes is kept besides what is handed on.
std::int64_t exchanged_kv_width(const Sizes& s) {
  return program::exchanged_kv_heads(s.heads, s.kv_heads, s.cp_heads) * (s.q / s.heads);
}
std::int64_t exchanged_bytes(const Sizes& s) { return s.n * (s.q + 2 * exchanged_kv_width(s)) * s.c; }

void forward_exchanged_attention(AllocationEvents& events, const Sizes& s, const std::string& out,
                                 std::int64_t scratch) {
  events.pass(2 * exchanged_bytes(s)).make("exchanged", exchanged_bytes(s));
  events.make("attended.longer", s.n * s.q * s.c).make("row_sums", s.n * s.heads * s.a);
  events.pass(attended_document_bytes(s) + scratch);
  for (const char* name : {"exchanged", "attended.longer", "row_sums"}) events.tape(name);
  events.pass(s.n * s.q * s.c).make(out, s.n * s.q * s.c);
  for (const char* name : {"attended.longer", "row_sums", "exchanged"}) events.drop(name);
}

void backward_exchanged_attention(AllocationEvents& events, const Sizes& s, const std::string& out,
                                  std::int64_t scratch) {
  events.pass(s.n * s.q * s.c).make("d.longer", s.n * s.q * s.c).drop("d." + out);
  events.make("d.exchanged", exchanged_bytes(s));
  events.pass(document_gradient_bytes(s, exchanged_kv_width(s)) + scratch);
  events.drop("d.longer");
  for (const char* name : {"exchanged", "row_sums", "attended.longer"}) events.untape(name);
  events.pass(2 * exchanged_bytes(s));
  events.make("d.q", s.n * s.q * s.c).make("d.k", s.n * s.k * s.c).make("d.v", s.n * s.k * s.c);
  events.drop("d.exchanged");
}
}  // namespace

void forward_heads(AllocationEvents& events, const Sizes& s, const HeadNames& names) {
  const Block block(s);
  std::int64_t scratch = (block.rows * block.columns + 2 * block.rows + block.rows * s.q / s.heads) * s.a;
  if (s.is_narrow())
    scratch += block.rows * block.columns * s.c + 2 * s.n * s.k * s.c;  // keys and values packed
  if (s.cp_heads > 1) return forward_exchanged_attention(events, s, names.out, scratch);
  events.make(names.out, s.n * s.q * s.c).make("row_sums", s.n * s.heads * s.a);
  events.pass(attended_document_bytes(s) + scratch);
  for (const std::string& name : names.in) events.tape(name);
  events.tape(names.out).tape("row_sums").drop("row_sums");
}

void backward_heads(AllocationEvents& events, const Sizes& s, const HeadNames& names) {
  const Block block(s);
  const std::int64_t scratch = 2 * block.rows * block.columns * (s.a + (s.is_narrow() ? s.c : 0));
  if (s.cp_heads > 1) return backward_exchanged_attention(events, s, names.out, scratch);
  events.make("d.q", s.n * s.q * s.c).make("d.k", s.n * s.k * s.c).make("d.v", s.n * s.k * s.c);
  events.pass(document_gradient_bytes(s, s.k) + scratch);
  events.drop("d." + names.out);
  for (const std::string& name : names.in) events.untape(name);
  events.untape("row_sums").untape(names.out);
}

void forward_attention(AllocationEvents& events, const Sizes& s, const HeadShape& shape) {
  if (shape.has_norm) forward_head_norm(events, s);
  if (shape.has_rotary) events.make("turned", turned_bytes(s, s.c));
  if (shape.has_norm) events.drop("heads.normed").tape("heads.statistics").drop("heads.statistics");
  if (shape.has_norm && s.cp_heads > 1) events.tape("qkv");
  forward_heads(events, s, {{"turned", "qkv"}, "attended"});
  events.drop("turned").drop("qkv");
}

void backward_attention(AllocationEvents& events, const Sizes& s, const HeadShape& shape) {
  backward_heads(events, s, {{"turned"}, "attended"});
  if (shape.has_norm) {
    backward_head_norm(events, s);
    events.untape("heads.statistics").untape("qkv");
  } else {
    if (s.cp_heads == 1) events.untape("qkv");
    events.make("d.qkv", s.n * (s.q + 2 * s.k) * s.c);
  }
  events.drop("d.q").drop("d.k").drop("d.v");
}

// Logits, dx and dW are multiplied out chunk by chunk in the forward, dx and dW are kept, and the backward
// only scales them.
void forward_loss(AllocationEvents& events, const Sizes& s) {
  if (s.blocks.move()) return forward_block_loss(events, s);
  const std::string x = forward_enter(events, s, "normed");
  const std::int64_t rows = std::min(s.n, s.loss_chunk);
  const std::int64_t narrow = s.is_narrow() ? s.c : 0, weight = s.v * s.h;
  events.make("dx", s.n * s.h * s.c).make("dw", weight * s.a);
  // One rank has logits and their logarithms; several turn theirs into exponentials in place.
  events.pass(rows * s.v * std::max(s.tp == 1 ? 2 * s.a : s.a, s.a + narrow));
  // In 16 bits the chunk's dW is made narrow, then widened to be added.
  events.pass(rows * s.v * (s.a + narrow) + std::max(rows * s.h * s.c, narrow ? weight * (narrow + s.a) : 0));
  events.tape("dx").tape("dw").drop("dx").drop("dw").drop(x);
}

void backward_loss(AllocationEvents& events, const Sizes& s) {
  if (s.blocks.move()) return backward_block_loss(events, s);
  events.make(s.r < s.n ? "d.normed.all" : "d.normed", s.n * s.h * s.c);
  events.defer("dw", s.v * s.h * s.a, "", 0, 0).untape("dx").untape("dw");
  backward_enter(events, s, "normed");
}

}  // namespace tessera::plan
