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

// The pieces of a branch as one, without the norm and the sum on the stream that are among their steps.
Piece branch(std::span<const Piece> pieces, const Piece& norm, const Sizes& s) {
  Piece out{.backward_flops = 0};
  for (const Piece& piece : pieces) add_costs(out, piece);
  const std::int64_t stream = s.r * s.h * s.c;
  out.bytes_read -= norm.bytes_read + 2 * stream;
  out.bytes_written -= norm.bytes_written + stream;
  out.tape_bytes = std::max<std::int64_t>(0, out.tape_bytes - norm.tape_bytes - s.n * s.h * s.c);
  out.channels = s.h;
  // All but those of what enters and leaves the stream.
  for (const Piece& piece : pieces) {
    const bool exchanges = std::ranges::any_of(
        piece.steps, [](const program::Step& step) { return step.kind != program::Step::Kind::work; });
    const auto keep = [&](const std::vector<program::Collective>& from,
                          std::vector<program::Collective>& to) {
      std::ranges::copy_if(from, std::back_inserter(to),
                           [&](const auto& c) { return !exchanges || c.over != s.over_tp; });
    };
    keep(piece.collectives, out.collectives);
    keep(piece.backward_collectives, out.backward_collectives);
  }
  return out;
}

// What happens on the stream: norms, sums, and values that are only handed on.
Piece on_stream(std::span<const program::Step> steps, const Piece& norm, const Sizes& s) {
  const std::int64_t stream = s.r * s.h * s.c;
  Piece out{.channels = s.h, .token_parts = s.n / s.r};
  for (const program::Step& step : steps) {
    if (step.name.starts_with("norm")) {
      out.bytes_read += norm.bytes_read;
      out.bytes_written += norm.bytes_written;
      out.tape_bytes += norm.tape_bytes;
      out.scratch_bytes = std::max(out.scratch_bytes, norm.scratch_bytes);
      out.backward_scratch_bytes = std::max(out.backward_scratch_bytes, norm.backward_scratch_bytes);
    } else if (step.name.starts_with("add")) {
      out.bytes_read += 2 * stream;
      out.bytes_written += stream;
    }
  }
  return out;
}

struct Placed {
  program::Step step;
  std::size_t piece;  // of the closed block
};

std::vector<Placed> all_steps(const program::Unit& block) {
  std::vector<Placed> out;
  for (std::size_t i = 0; i < block.pieces.size(); ++i)
    for (const program::Step& step : block.pieces[i].steps) out.push_back({step, i});
  return out;
}

}  // namespace

program::Unit open(const program::Unit& block, const Piece& norm, const Sizes& s) {
  using Kind = program::Step::Kind;
  const std::vector<Placed> steps = all_steps(block);
  const auto is_read_after = [&](std::size_t end, const std::string& value) {
    return std::any_of(
        steps.begin() + static_cast<std::ptrdiff_t>(end), steps.end(),
        [&](const Placed& placed) { return std::ranges::count(placed.step.reads, value) > 0; });
  };
  program::Unit out{block.name, {}};
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end + 1) {
    std::vector<program::Step> own;
    for (end = begin; end < steps.size() && steps[end].step.kind == Kind::work; ++end)
      own.push_back(steps[end].step);
    const bool is_last = end == steps.size(), is_branch = !is_last && steps[end].step.kind == Kind::leave;
    const std::span pieces(block.pieces);
    Piece piece =
        is_branch
            ? branch(pieces.subspan(steps[begin].piece, steps[end].piece - steps[begin].piece + 1), norm, s)
            : on_stream(own, norm, s);
    piece.reads = values_read(own);
    std::vector<std::string> names;
    for (const program::Step& step : own) {
      names.push_back(step.name);
      piece.parameters.insert(piece.parameters.end(), step.parameters.begin(), step.parameters.end());
      for (const std::string& value : step.writes) {
        const bool is_result = is_last && &step == &own.back();
        if (!is_result && !is_read_after(end, value)) continue;
        piece.writes.push_back(value);
        const bool is_exchanged = !is_last && steps[end].step.reads.front() == value;
        if (is_last) continue;
        piece.exchanges.push_back(is_exchanged ? exchange_of(is_branch ? leave_stream : enter_stream, s)
                                               : program::Exchange{});
      }
    }
    piece.name = join(names, "+");
    piece.steps = std::move(own);
    out.pieces.push_back(std::move(piece));
  }
  return out;
}

}  // namespace tessera::plan
