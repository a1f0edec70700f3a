#include "tessera/plan/model/unit_allocation_events.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/plan/model/allocation_events.hpp"
#include "tessera/plan/model/block_events.hpp"
#include "tessera/program/ir/footprint.hpp"

namespace tessera::plan {
namespace {

struct Branch {  // norm(x) and the product that leaves the residual stream
  std::string x, normed, out, residual;
  std::int64_t width;
  bool has_bias;
};

void norm_and_product(program::Piece& piece, const Sizes& s, bool has_mean, const Branch& b) {
  const ProductSizes sizes{s.h, b.width, b.has_bias};
  AllocationEvents forward, backward;
  forward_norm(forward, s, has_mean, b.x, b.normed);
  if (s.regathers) forward.tape(b.normed);
  const ProductNames names{forward_enter(forward, s, b.normed), b.out, "d." + b.out};
  forward_product(forward, s, names, sizes, /*tapes=*/!s.regathers);
  forward.drop(names.x);
  if (s.regathers) backward.make(names.x, s.n * s.h * s.c);
  backward_product(backward, s, names, sizes);
  if (s.regathers) backward.drop(names.x).untape(b.normed);
  backward.drop("d." + b.out);
  backward_enter(backward, s, b.normed);
  backward_norm(backward, s, has_mean, b.x, b.normed, b.residual);
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

}  // namespace

void settle(program::Unit& unit) {
  program::Footprint before;
  for (std::size_t i = 0; i < unit.pieces.size(); ++i) {
    program::Piece& piece = unit.pieces[i];
    const auto so_far = program::footprint(std::span(unit.pieces).first(i + 1));
    const auto alone = program::footprint(std::span(&piece, 1));
    piece.tape_bytes = so_far.tape_bytes - before.tape_bytes;
    piece.work_bytes = so_far.work_bytes - before.work_bytes;
    piece.scratch_bytes = alone.bare_peak;
    piece.backward_scratch_bytes = std::max<std::int64_t>(0, alone.backward_peak);
    before = so_far;
  }
}

void add_residual_events(program::Piece& piece, const Sizes& s, const BlockShape& shape,
                         const std::string& branch, std::int64_t in, const std::string& sum) {
  const std::string product = sum + ".product", gradient = "d." + (s.drops ? product : sum);
  const ProductSizes sizes{in, s.h, shape.has_bias};
  AllocationEvents forward, backward;
  forward_product(forward, s, {branch, product, ""}, sizes);
  forward.drop(branch);
  const std::string left = forward_leave(forward, s, product), dropped = s.drops ? sum + ".dropped" : left;
  forward_dropout(forward, s, left, dropped);
  forward.make(sum, s.r * s.h * s.c).drop(dropped);
  if (s.drops) backward.make(gradient, s.r * s.h * s.c);
  const ProductNames names{branch, product, backward_leave(backward, s, gradient)};
  backward_product(backward, s, names, sizes);
  drop_left(backward, s, gradient);
  if (s.drops) backward.drop(gradient);
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

void add_entering_events(program::Piece& piece, const Sizes& s, const std::string& x, const std::string& out,
                         std::int64_t width, const std::string& residual) {
  const bool gathers = s.r != s.n;
  const std::string entered = gathers ? x + ".entered" : x,
                    part = !gathers && residual.empty() ? "d." + x : "d." + entered + ".part";
  AllocationEvents forward, backward;
  if (s.blocks.move()) {
    const ProductNames names{x, out, "d." + out};
    const ProductSizes sizes{s.h, width, false};
    forward_block_product(forward, s, names, sizes);
    backward_block_product(backward, s, names, sizes, residual.empty() ? "" : part);
    backward.drop("d." + out);
    if (!residual.empty()) backward.sum("d." + x, residual, s.r * s.h * s.c).drop(part);
    piece.forward_events = forward.list();
    piece.backward_events = backward.list();
    return;
  }
  if (gathers) forward.make(entered, s.n * s.h * s.c);
  if (s.regathers) forward.tape(x);
  forward_product(forward, s, {entered, out, ""}, {s.h, width, false}, /*tapes=*/!s.regathers);
  if (gathers) forward.drop(entered);
  if (s.regathers) backward.make(entered, s.n * s.h * s.c);
  backward.make(part, s.n * s.h * s.c)
      .defer("d." + out, s.n * width * s.c, entered, s.n * s.h * s.c,
             s.c < s.a ? s.h * width * (s.c + s.a) : 0)
      .untape(entered);
  if (s.regathers) backward.drop(entered).untape(x);
  backward.drop("d." + out);
  const std::string found = !gathers ? part : residual.empty() ? "d." + x : "part";
  if (gathers)
    backward.make(found, s.r * s.h * s.c).drop(part);
  else if (s.tp > 1)
    backward.pass(s.n * s.h * s.c);
  if (!residual.empty()) backward.sum("d." + x, residual, s.r * s.h * s.c).drop(found);
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

void add_function_events(program::Piece& piece, const Sizes& s, bool is_gated) {
  const std::int64_t bytes = s.n * s.f * s.c;
  AllocationEvents forward, backward;
  if (is_gated) {
    forward.make("opened", bytes).make("fed", bytes).tape("up").tape("opened").drop("opened").drop("up");
    backward.make("d.up", 2 * bytes).pass(bytes).drop("d.fed").untape("up").untape("opened");
  } else {
    forward.make("fed", bytes).tape("up").drop("up");
    backward.make("d.up", bytes).drop("d.fed").untape("up");
  }
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

void add_attention_events(program::Piece& piece, const Sizes& s, bool has_rotary, bool has_qk_norm) {
  AllocationEvents forward, backward;
  forward_attention(forward, s, {has_rotary, has_qk_norm});
  backward_attention(backward, s, {has_rotary, has_qk_norm});
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
}

void add_attention_branch_events(program::Unit& unit, const Sizes& s, const BlockShape& shape) {
  auto* pieces = unit.pieces.data();
  norm_and_product(pieces[0], s, shape.has_mean,
                   {"x", "normed_1", "qkv", "d.middle", s.q + 2 * s.k, shape.has_bias || shape.has_qkv_bias});
  add_attention_events(pieces[1], s, shape.has_rotary, shape.has_qk_norm);
  add_residual_events(pieces[2], s, shape, "attended", s.q, "middle");
}

void add_block_events(program::Unit& unit, const Sizes& s, const BlockShape& shape) {
  TESSERA_CHECK(unit.pieces.size() == 6, "a block of ", unit.pieces.size(), " pieces");
  auto* pieces = unit.pieces.data();
  add_attention_branch_events(unit, s, shape);
  add_feed_forward_events(pieces[3], pieces[4], pieces[5], s, shape);
  settle(unit);
}

void add_feed_forward_events(program::Piece& up, program::Piece& function, program::Piece& down,
                             const Sizes& s, const BlockShape& shape) {
  norm_and_product(up, s, shape.has_mean,
                   {"middle", "normed_2", "up", "d.y", shape.is_gated ? 2 * s.f : s.f, shape.has_bias});
  add_function_events(function, s, shape.is_gated);
  add_residual_events(down, s, shape, "fed", s.f, "y");
  down.forward_events.push_back({.act = program::AllocationEvent::Act::drop, .storage = "middle"});
}

void add_lookup_events(program::Unit& unit, const Sizes& s, std::int64_t tables) {
  TESSERA_CHECK(unit.pieces.size() == 1 && tables <= 2, "an embedding of ", unit.pieces.size(), " pieces");
  const std::int64_t bytes = s.r * s.h * s.c, all_bytes = s.n * s.h * s.c;
  const auto widened = [&](std::int64_t rows) { return s.c < s.a ? rows * s.h * s.a : 0; };
  const std::string first = s.drops ? "rows" : "y", looked_up = tables == 2 || s.tp > 1 ? "tokens" : first;
  AllocationEvents forward, backward;
  const bool in_blocks = s.blocks.move();
  if (in_blocks)
    forward_block_lookup(forward, s, looked_up);
  else
    forward.make(looked_up, all_bytes);
  std::string left = forward_leave(forward, s, looked_up);
  if (tables == 2) {
    forward.make("places", s.r * kIndexBytes).tape("places").make("positions", bytes);
    forward.make(first, bytes).drop("positions").drop(left).drop("places");
    left = first;
  }
  forward_dropout(forward, s, left, "y");
  const std::string gradient = s.drops ? "d.rows" : "d.y";
  if (s.drops) backward.make(gradient, bytes);
  if (in_blocks)
    backward_block_lookup(backward, s, gradient);
  else
    backward.defer(backward_leave(backward, s, gradient), all_bytes, "", 0, widened(s.n));
  drop_left(backward, s, gradient);
  if (tables == 2) backward.defer(gradient, bytes, "", 0, widened(s.r));
  if (s.drops) backward.drop(gradient);
  if (tables == 2) backward.untape("places");
  unit.pieces[0].forward_events = forward.list();
  unit.pieces[0].backward_events = backward.list();
  settle(unit);
}

void add_head_events(program::Unit& unit, const Sizes& s, bool has_mean, const std::string& stream) {
  TESSERA_CHECK(unit.pieces.size() == 2, "a head of ", unit.pieces.size(), " pieces");
  AllocationEvents norm, d_norm, loss, d_loss;
  forward_norm(norm, s, has_mean, stream, "normed");
  backward_norm(d_norm, s, has_mean, stream, "normed", "");
  forward_loss(loss, s);
  backward_loss(d_loss, s);
  unit.pieces[0].forward_events = norm.list();
  unit.pieces[0].backward_events = d_norm.list();
  unit.pieces[1].forward_events = loss.list();
  unit.pieces[1].backward_events = d_loss.list();
  settle(unit);
}

}  // namespace tessera::plan
