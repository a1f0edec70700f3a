#include "tessera/plan/stages/cuts.hpp"

#include <algorithm>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/simulate/rates.hpp"

namespace tessera::plan {
namespace {

bool is_opened(const program::Unit& unit) {
  return std::ranges::any_of(unit.pieces, [](const auto& piece) { return !piece.exchanges.empty(); });
}

// Whether a piece from `from` on reads what piece `at` writes.
bool is_read_from(const program::Unit& unit, std::size_t at, std::size_t from) {
  for (const std::string& name : unit.pieces[at].writes)
    for (std::size_t piece = from; piece < unit.pieces.size(); ++piece)
      if (std::ranges::count(unit.pieces[piece].reads, name) > 0) return true;
  return false;
}

// The pieces of an opened block are called by their steps: "qkv+attention+out" is all of "norm+qkv", and
// "combine+up+gate" of "shared up".
bool holds(const std::string& opened, const std::string& name) {
  std::string work = name;
  for (const std::string_view before : {"norm+", "shared "})
    if (name.starts_with(before)) work = name.substr(before.size());
  return cat("+", opened, "+").find(cat("+", work, "+")) != std::string::npos;
}

bool is_named(const program::Unit& block, const program::Piece& piece, const std::string& name) {
  return piece.name == name || (is_opened(block) && holds(piece.name, name));
}

// Blocks may differ: a name must mean a piece of one of them.
void check_names(std::span<const program::Unit> blocks, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const program::Unit& block : blocks)
    for (const program::Piece& piece : block.pieces)
      if (std::ranges::count(known, piece.name) == 0) known.push_back(piece.name);
  for (const std::string& name : names) {
    const bool is_known = std::ranges::any_of(blocks, [&](const program::Unit& block) {
      return std::ranges::any_of(block.pieces,
                                 [&](const auto& piece) { return is_named(block, piece, name); });
    });
    if (!is_known)
      throw UserError(
          cat("layout.recompute_pieces names \"", name, "\"; the pieces of a block are ", join(known, ", ")));
  }
  if (names.empty())
    throw UserError(cat("layout.recompute_pieces is empty: name some of ", join(known, ", "),
                        ", or write layout.recompute = \"none\""));
}

std::vector<bool> named_pieces(const program::Unit& block, const std::vector<std::string>& names) {
  std::vector<bool> out;
  for (const program::Piece& piece : block.pieces)
    out.push_back(std::ranges::any_of(names, [&](const auto& name) { return is_named(block, piece, name); }));
  return out;
}

}  // namespace

Cut uncut(const program::Unit& unit) {
  if (is_opened(unit)) return Cut(unit.pieces.size(), {1, false});
  return {{static_cast<std::uint32_t>(unit.pieces.size()), false}};
}

Cut cut_around(const program::Unit& block, const std::vector<bool>& recomputed) {
  const std::size_t num_pieces = block.pieces.size();
  TESSERA_CHECK(recomputed.size() == num_pieces, "a choice for ", recomputed.size(), " of ", num_pieces,
                " pieces");
  std::vector<bool> ends(num_pieces, false);  // by piece: a stretch ends with it
  for (std::size_t piece = 0; piece < num_pieces; ++piece)
    ends[piece] = piece + 1 == num_pieces || recomputed[piece] != recomputed[piece + 1] || is_opened(block);
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (std::size_t piece = 0; piece < num_pieces; ++piece) {
      std::size_t last = piece;
      while (!ends[last]) ++last;
      if (ends[piece] || !is_read_from(block, piece, last + 1)) continue;
      ends[piece] = is_changed = true;
    }
  }
  Cut out;
  for (std::size_t piece = 0, first = 0; piece < num_pieces; ++piece)
    if (ends[piece]) {
      out.push_back({static_cast<std::uint32_t>(piece + 1 - first), recomputed[piece]});
      first = piece + 1;
    }
  return out;
}

Cuts cuts(const spec::Layout& layout, std::span<const program::Unit> blocks) {
  Cuts out;
  const auto named = spec::split_list(layout.recompute_pieces);
  if (layout.recompute == spec::Recompute::selective) check_names(blocks, named);
  for (const program::Unit& block : blocks) switch (layout.recompute) {
      case spec::Recompute::none:
        out.push_back(uncut(block));
        break;
      case spec::Recompute::full:
        out.push_back(cut_around(block, std::vector<bool>(block.pieces.size(), true)));
        break;
      case spec::Recompute::selective:
        out.push_back(cut_around(block, named_pieces(block, named)));
        break;
      case spec::Recompute::budget:
        throw Bug("a budget is met by a search, not by words");
    }
  return out;
}

double recompute_seconds(const program::Unit& block, const Cut& cut) {
  double out = 0;
  std::size_t first = 0;
  for (const Stretch& stretch : cut) {
    const auto pieces = std::span(block.pieces).subspan(first, stretch.num_pieces);
    if (stretch.recomputed) out += simulate::recompute_seconds(pieces, {});
    first += stretch.num_pieces;
  }
  return out;
}

}  // namespace tessera::plan
