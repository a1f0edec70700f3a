#include "tessera/plan/model/ahead.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/model/allocation_events.hpp"
#include "tessera/plan/model/decoder.hpp"
#include "tessera/plan/model/unit_allocation_events.hpp"

namespace tessera::plan {
namespace {

using program::AllocationEvent;
using program::Piece;

// Storages of the block beside those of the head.
std::vector<AllocationEvent> beside(std::vector<AllocationEvent> events) {
  const auto rename = [](std::string& name) {
    if (name.empty()) return;
    name = name.starts_with("d.") ? "d.ahead." + name.substr(2) : "ahead." + name;
  };
  for (AllocationEvent& event : events) rename(event.storage), rename(event.other);
  return events;
}

// The next token's embedding and the normed stream, each normed, side by side through one matrix.
Piece joining(const Sizes& s) {
  Piece piece = lookup(s, 1);
  piece.name = "join ahead";
  const std::int64_t row = s.h * s.c, stream = s.r * row;
  piece.flops = product_flops(s.r, 2 * s.h, s.h);
  piece.backward_flops = 2 * piece.flops;
  if (s.r == s.n && s.tp > 1) piece.repeated_flops = piece.flops * (1 - 1.0 / static_cast<double>(s.tp));
  piece.bytes_read += 6 * stream + 2 * s.h * row;
  piece.bytes_written += 5 * stream;
  AllocationEvents forward, backward;
  forward.make("ahead.looked_up", s.n * row);
  const std::string rows = forward_leave(forward, s, "ahead.looked_up");
  forward_norm(forward, s, false, rows, "ahead.embedded");
  forward_norm(forward, s, false, "normed", "ahead.stream");
  forward.drop(rows).make("ahead.joined", 2 * stream).drop("ahead.embedded").drop("ahead.stream");
  forward.make("ahead.x", stream).tape("ahead.joined").drop("ahead.joined");
  backward.make("d.ahead.joined", 2 * stream).defer("d.ahead.x", stream, "ahead.joined", 2 * stream, 0);
  backward.drop("d.ahead.x").untape("ahead.joined");
  backward_norm(backward, s, false, "normed", "ahead.stream", "d.normed");
  backward_norm(backward, s, false, rows, "ahead.embedded", "");
  backward.drop("d.ahead.joined");
  backward.defer(backward_leave(backward, s, "d." + rows), s.n * row, "", 0, 0);
  drop_left(backward, s, "d." + rows);
  backward.drop("d." + rows);
  piece.forward_events = forward.list();
  piece.backward_events = backward.list();
  return piece;
}

}  // namespace

void add_ahead(ModelPlan& plan, const spec::Model& m, const Sizes& s, const program::Unit& block) {
  const auto names = [&](std::vector<std::string> list) { return in_layer(m.layers, std::move(list)); };
  const std::vector<std::string> norms = names({"enorm", "hnorm", "shared_head.norm"});
  const std::string matrix = names({"eh_proj.weight"}).front(), rows = "model.embed_tokens.weight";
  std::vector<Piece>& pieces = plan.head.pieces;
  pieces.insert(pieces.begin() + 1, named(joining(s), {"normed"}, {"hidden"},
                                          {norms[0] + ".weight", norms[1] + ".weight", matrix, rows}));
  pieces[1].forward_only = {rows};
  const auto add = [&](Piece piece) {
    piece.forward_events = beside(std::move(piece.forward_events));
    piece.backward_events = beside(std::move(piece.backward_events));
    pieces.push_back(std::move(piece));
  };
  for (const Piece& piece : block.pieces) add(piece);
  program::Unit end{"head", {norm(s, kRmsNorm), loss(s)}};
  add_head_events(end, s, false, "y");
  end.pieces[0].forward_events.push_back({.act = AllocationEvent::Act::drop, .storage = "x"});
  end.pieces[1].forward_events.push_back({.act = AllocationEvent::Act::drop, .storage = "y"});
  end.pieces[1].losses = {{.name = "mtp", .tokens = "tokens_ahead"}};
  add(named(end.pieces[0], {"hidden"}, {"normed_ahead"}, {norms[2] + ".weight"}));
  add(named(end.pieces[1], {"normed_ahead", "targets"}, {}, {m.tied_embeddings ? rows : "lm_head.weight"}));
  settle(plan.head);
  plan.head_reads_embedding = true;
  plan.head_parameters.push_back(
      {{.name = matrix, .shape = {m.hidden, 2 * m.hidden}, .init = normal(m.init_std)}});
  for (const std::string& name : norms) plan.head_vectors.push_back({norm_weight(name, m.hidden)});
}

}  // namespace tessera::plan
