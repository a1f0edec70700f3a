#include "tessera/data/samples/bins.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

class Filler {
 public:
  Filler(std::uint64_t capacity, std::size_t most) : capacity_(capacity), most_(most) {}

  // False when no bin has room.
  bool put_whole(const Piece& piece) {
    auto fit = rooms_.lower_bound({piece.length, 0});
    if (fit == rooms_.end()) {
      if (bins_.size() == most_) return false;
      fit = add_bin();
    }
    put(fit, piece);
    return true;
  }

  // Into the largest rooms that there are.
  void put_cut(Piece piece) {
    while (piece.length > 0) {
      TESSERA_CHECK(!rooms_.empty() || bins_.size() < most_, "no room for a piece of ", piece.length);
      const auto fit = bins_.size() < most_ ? add_bin() : std::prev(rooms_.end());
      const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece.length, fit->first));
      put(fit, {piece.place, length, length < piece.length || piece.is_cut});
      piece.place += length;
      piece.length -= length;
    }
  }

  Bins take() { return std::move(bins_); }

 private:
  using Rooms = std::set<std::pair<std::uint64_t, std::size_t>>;  // room, bin

  Rooms::iterator add_bin() {
    bins_.emplace_back();
    return rooms_.emplace(capacity_, bins_.size() - 1).first;
  }
  void put(Rooms::iterator at, const Piece& piece) {
    const auto [room, bin] = *at;
    rooms_.erase(at);
    bins_[bin].push_back(piece);
    if (room > piece.length) rooms_.emplace(room - piece.length, bin);
  }

  std::uint64_t capacity_;
  std::size_t most_;
  Bins bins_;
  Rooms rooms_;  // of bins that are not full
};

void sort_decreasing(std::vector<Piece>& pieces) {
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return a.length != b.length ? a.length > b.length : a.place < b.place;
  });
}

}  // namespace

Bins best_fit(std::vector<Piece> pieces, std::uint64_t capacity) {
  Filler filler(capacity, std::numeric_limits<std::size_t>::max());
  sort_decreasing(pieces);
  for (const Piece& piece : pieces) filler.put_whole(piece);
  return filler.take();
}

Bins best_fit_into(std::vector<Piece> pieces, std::uint64_t capacity, std::size_t count,
                   std::uint64_t* num_cut) {
  Filler filler(capacity, count);
  sort_decreasing(pieces);
  std::vector<Piece> left;
  for (const Piece& piece : pieces)
    if (!filler.put_whole(piece)) left.push_back(piece);
  for (const Piece& piece : left) filler.put_cut(piece);
  if (num_cut) *num_cut += left.size();
  Bins bins = filler.take();
  const std::size_t used = bins.size();
  bins.resize(count);
  // A sample without a token would be a waste of one, though a legal one.
  for (std::size_t empty = used, from = 0; empty < count && from < used; ++from)
    if (bins[from].size() > 1) {
      bins[empty++].push_back(bins[from].back());
      bins[from].pop_back();
    }
  return bins;
}

}  // namespace tessera::data
