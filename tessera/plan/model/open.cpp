#include "tessera/plan/model/open.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::plan {
namespace {

using program::Piece;

// The collectives that a piece would have, as those of a value.
program::Exchange exchange_of(void (*add)(Piece&, const Sizes&), const Sizes& s) {
  Piece piece;
  add(piece, s);
  for (auto* list : {&piece.collectives, &piece.backward_collectives})
    for (program::Collective& call : *list) call.over = s.over_tp_exchanges;
  return {piece.collectives, piece.backward_collectives};
}

// Three pieces as one, without the norm before them and the sum behind them.
Piece branch(std::span<const Piece> pieces, const Piece& norm, const Sizes& s) {
  // "norm+qkv", "attention", "out"
  Piece out{.name = cat(pieces[0].name.substr(pieces[0].name.find('+') + 1), "+", pieces[1].name, "+",
                        pieces[2].name),
            .backward_flops = 0};
  for (const Piece& piece : pieces) {
    out.flops += piece.flops;
    out.backward_flops += piece.backward_flops;
    out.repeated_flops += piece.repeated_flops;
    out.bytes_read += piece.bytes_read;
    out.bytes_written += piece.bytes_written;
    out.tape_bytes += piece.tape_bytes;
    out.work_bytes += piece.work_bytes;
    out.scratch_bytes = std::max(out.scratch_bytes, piece.scratch_bytes);
    out.backward_scratch_bytes = std::max(out.backward_scratch_bytes, piece.backward_scratch_bytes);
  }
  const std::int64_t stream = s.r * s.h * s.c;
  out.bytes_read -= norm.bytes_read + 2 * stream;
  out.bytes_written -= norm.bytes_written + stream;
  out.tape_bytes = std::max<std::int64_t>(0, out.tape_bytes - norm.tape_bytes - s.n * s.h * s.c);
  out.channels = s.h;
  // Over cp as before; over tp no more.
  for (const Piece& piece : pieces) {
    const auto keep = [&](const std::vector<program::Collective>& from,
                          std::vector<program::Collective>& to) {
      std::ranges::copy_if(from, std::back_inserter(to), [&](const auto& c) { return c.over != s.over_tp; });
    };
    keep(piece.collectives, out.collectives);
    keep(piece.backward_collectives, out.backward_collectives);
  }
  return out;
}

Piece add(const std::string& name, const Sizes& s) {
  const std::int64_t stream = s.r * s.h * s.c;
  return {.name = name,
          .bytes_read = 2 * stream,
          .bytes_written = stream,
          .channels = s.h,
          .token_parts = s.n / s.r};
}

}  // namespace

program::Unit open(const program::Unit& block, const Piece& norm, const Sizes& s,
                   const std::set<std::string>& on_stream) {
  TESSERA_CHECK(block.pieces.size() == 6, "a block of ", block.pieces.size(), " pieces is not opened");
  const std::span pieces(block.pieces);
  const auto parameters = [&](std::span<const Piece> of, bool is_on_stream) {
    std::vector<std::string> out;
    for (const Piece& piece : of)
      for (const std::string& name : piece.parameters)
        if (on_stream.contains(name) == is_on_stream) out.push_back(name);
    return out;
  };
  const program::Exchange enters = exchange_of(enter_stream, s), leaves = exchange_of(leave_stream, s);
  Piece first = norm, second = add("add+norm_2", s), last = add("add", s);
  first.name = "norm_1";
  first.forward_events.clear();
  first.backward_events.clear();
  second.bytes_read += norm.bytes_read;
  second.bytes_written += norm.bytes_written;
  second.tape_bytes = norm.tape_bytes;
  second.scratch_bytes = norm.scratch_bytes;
  second.backward_scratch_bytes = norm.backward_scratch_bytes;
  program::Unit out{
      block.name,
      {named(first, {"hidden"}, {"normed_1"}, parameters(pieces.first(1), true)),
       named(branch(pieces.first(3), norm, s), {"normed_1"}, {"attended_sums"},
             parameters(pieces.first(3), false)),
       named(second, {"attended_sums", "hidden"}, {"middle", "normed_2"},
             parameters(pieces.subspan(2, 2), true)),
       named(branch(pieces.last(3), norm, s), {"normed_2"}, {"fed_sums"}, parameters(pieces.last(3), false)),
       named(last, {"fed_sums", "middle"}, {"hidden"}, parameters(pieces.last(1), true))}};
  out.pieces[0].exchanges = {enters};
  out.pieces[1].exchanges = {leaves};
  out.pieces[2].exchanges = {{}, enters};
  out.pieces[3].exchanges = {leaves};
  return out;
}

}  // namespace tessera::plan
