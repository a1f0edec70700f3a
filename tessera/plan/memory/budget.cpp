#include "tessera/plan/memory/budget.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/memory/fill_blocks.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/stages/segments.hpp"
#include "tessera/program/ir/effects.hpp"

namespace tessera::plan {
namespace {

// What a block's weights hold is the same for every cut.
Option priced(const BlockValues& values, program::Unit block, Cut cut) {
  for (program::Piece& piece : block.pieces) piece.parameters.clear();
  program::Tables tables;
  SegmentTable segments(values.tokens, values.compute, tables);
  segments.add(block, cut);
  Option out{.seconds = recompute_seconds(block, cut)};
  for (std::uint32_t s = 0; s < tables.segments.size(); ++s) {
    const auto bytes = [&](program::CellKind kind, std::uint32_t item) {
      return program::bytes_of(program::Cell{kind, item, 0}, tables);
    };
    const std::int64_t tape = bytes(program::CellKind::tape, s);
    out.during_bytes = std::max(out.during_bytes, out.kept_bytes + tape);
    if (!cut[s].recomputed) out.kept_bytes += tape;
    if (s + 1 < tables.segments.size())
      out.kept_bytes += bytes(program::CellKind::value, tables.segments[s].writes[0]);
  }
  out.cut = std::move(cut);
  return out;
}

bool beats(const Option& a, const Option& b) {
  return a.kept_bytes <= b.kept_bytes && a.during_bytes <= b.during_bytes && a.seconds <= b.seconds;
}

constexpr int kHalvings = 12;
constexpr std::size_t kMostWork = 300'000;  // ops that may be compiled to better what was found

// The blocks of one position on the stage axis, and what was found for them.
struct RankChoice {
  std::vector<std::size_t> blocks;
  double in_flight = 1;           // micro-batches whose tapes it holds at a time
  double fits = 0, too_much = 0;  // bytes given to its dynamic program
  // Options, by place in `blocks`: those tried now, the cheapest that fit, and those that hold least.
  std::vector<std::size_t> chosen, best, least;
  double best_seconds = std::numeric_limits<double>::infinity();
  std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
};

class Search {
 public:
  Search(const Budget& budget, std::span<const program::Unit> blocks)
      : budget_(budget), options_(options(budget.values, blocks.front())), num_blocks_(blocks.size()) {
    const auto held = program::peak_activations(budget.staged.order);
    const auto& rank_of_stage = budget.staged.order.rank_of_stage;
    ranks_.resize(held.size());
    for (std::size_t r = 0; r < held.size(); ++r)
      ranks_[r].in_flight = std::max(
          1.0, static_cast<double>(held[r]) / static_cast<double>(std::ranges::count(rank_of_stage, r)));
    for (std::size_t block = 0; block < num_blocks_; ++block)
      ranks_[budget.staged.rank_of_unit[block + 1]].blocks.push_back(block);
    std::size_t num_tasks = 0;
    for (const auto& tasks : budget.staged.order.ranks) num_tasks += tasks.size();
    most_tries_ = kMostWork / (num_tasks * (num_blocks_ / rank_of_stage.size() + 1));
  }

  Cuts run() {
    for (RankChoice& rank : ranks_) rank.chosen.assign(rank.blocks.size(), 0);
    if (too_high(peaks()).empty()) return cuts();
    start();
    for (int i = 0; i < kHalvings; ++i) halve();
    join();
    for (RankChoice& rank : ranks_) {
      use_up(rank);
      while (trade(rank)) {
      }
    }
    return cuts();
  }

 private:
  Cuts cuts() const {
    Cuts out(num_blocks_);
    for (const RankChoice& rank : ranks_)
      for (std::size_t i = 0; i < rank.blocks.size(); ++i) out[rank.blocks[i]] = options_[rank.chosen[i]].cut;
    return out;
  }

  std::vector<std::int64_t> peaks() const { return budget_.peaks_of(cuts()); }

  std::vector<std::size_t> too_high(const std::vector<std::int64_t>& peaks) const {
    std::vector<std::size_t> out;
    for (std::size_t r = 0; r < peaks.size(); ++r)
      if (peaks[r] > budget_.limit_bytes) out.push_back(r);
    return out;
  }

  std::optional<std::vector<std::size_t>> fill(const RankChoice& rank, double bytes) const {
    return fill_blocks({options_, rank.blocks.size(), rank.in_flight, bytes});
  }

  // Judges what is chosen: each rank remembers what holds least, and the cheapest that fits.
  std::vector<std::int64_t> judge() {
    const auto held = peaks();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankChoice& rank = ranks_[r];
      if (held[r] < rank.least_bytes) rank.least = rank.chosen, rank.least_bytes = held[r];
      const double seconds = seconds_of(rank.chosen);
      if (held[r] <= budget_.limit_bytes && seconds < rank.best_seconds)
        rank.best = rank.chosen, rank.best_seconds = seconds;
    }
    return held;
  }

  double seconds_of(const std::vector<std::size_t>& chosen) const {
    double total = 0;
    for (const std::size_t option : chosen) total += options_[option].seconds;
    return total;
  }

  // All blocks alike, and the least that the dynamic program can do with.
  void start() {
    for (std::size_t option = 0; option < options_.size(); ++option) {
      for (RankChoice& rank : ranks_) rank.chosen.assign(rank.blocks.size(), option);
      judge();
    }
    for (RankChoice& rank : ranks_) {
      for (const Option& option : options_)
        rank.too_much = std::max(rank.too_much, static_cast<double>(option.during_bytes + option.kept_bytes));
      rank.too_much *= (rank.in_flight + 1) * static_cast<double>(rank.blocks.size() + 1);
      double low = 0, high = rank.too_much;
      for (int i = 0; i < 2 * kHalvings; ++i) {
        const double middle = (low + high) / 2;
        (fill(rank, middle) ? high : low) = middle;
      }
      rank.fits = high;
      rank.chosen = fill(rank, high).value();
    }
    judge();
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].least_bytes > budget_.limit_bytes) throw nothing_fits(r);
  }

  UserError nothing_fits(std::size_t rank) const {
    std::int64_t most = 0;
    for (const RankChoice& other : ranks_) most = std::max(most, other.least_bytes);
    const auto mib = [](std::int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
    return UserError(cat(
        "layout.memory_limit_mib = ", budget_.limit_bytes >> 20, " is too little, whatever is recomputed: ",
        ranks_.size() > 1 ? cat("the ranks at pipeline stage ", rank, " hold ") : "a rank holds ",
        mib(ranks_[rank].least_bytes), " MiB at least. Write layout.memory_limit_mib = ", mib(most),
        ", or make layout.micro_batch smaller, or layout.zero or layout.pp larger."));
  }

  void halve() {
    for (RankChoice& rank : ranks_) rank.chosen = fill(rank, (rank.fits + rank.too_much) / 2).value();
    const auto held = judge();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const double middle = (ranks_[r].fits + ranks_[r].too_much) / 2;
      (held[r] <= budget_.limit_bytes ? ranks_[r].fits : ranks_[r].too_much) = middle;
    }
  }

  // What one rank computes moves when others send, so what fits by itself may not fit beside the others'
  // choices.
  void join() {
    for (RankChoice& rank : ranks_) rank.chosen = rank.best;
    for (auto over = too_high(peaks()); !over.empty(); over = too_high(peaks()))
      for (const std::size_t r : over) {
        if (ranks_[r].best == ranks_[r].least) throw nothing_fits(r);
        ranks_[r].chosen = ranks_[r].best = ranks_[r].least;
      }
  }

  // Takes what is tried if all ranks fit; tells whether they do.
  bool take(RankChoice& rank) {
    ++tries_;
    const bool does_fit = too_high(peaks()).empty();
    (does_fit ? rank.best : rank.chosen) = does_fit ? rank.chosen : rank.best;
    return does_fit;
  }

  // Late blocks first: their tapes are held for the shortest time.
  void use_up(RankChoice& rank) {
    for (std::size_t i = rank.blocks.size(); i-- > 0;)
      for (std::size_t cheaper = 0; cheaper < rank.best[i] && tries_ < most_tries_; ++cheaper) {
        rank.chosen[i] = cheaper;
        if (take(rank)) break;
      }
  }

  // One block computes less again, another more, for fewer seconds together; the largest gains first.
  bool trade(RankChoice& rank) {
    struct Trade {
      double gain;
      std::size_t less, less_option, more, more_option;
    };
    std::vector<Trade> all;
    for (std::size_t less = 0; less < rank.best.size(); ++less)
      for (std::size_t more = 0; more < rank.best.size(); ++more)
        for (std::size_t a = 0; a < rank.best[less]; ++a)
          for (std::size_t b = rank.best[more] + 1; less != more && b < options_.size(); ++b)
            if (const double gain = options_[rank.best[less]].seconds - options_[a].seconds +
                                    options_[rank.best[more]].seconds - options_[b].seconds;
                gain > 0)
              all.push_back({gain, less, a, more, b});
    std::ranges::sort(all, std::greater(), &Trade::gain);
    for (const Trade& e : all) {
      if (tries_ >= most_tries_) return false;
      rank.chosen[e.less] = e.less_option;
      rank.chosen[e.more] = e.more_option;
      if (take(rank)) return true;
    }
    return false;
  }

  const Budget& budget_;
  const std::vector<Option> options_;
  const std::size_t num_blocks_;
  std::vector<RankChoice> ranks_;
  std::size_t tries_ = 0, most_tries_ = 0;
};

}  // namespace

std::vector<Option> options(const BlockValues& values, const program::Unit& block) {
  std::vector<Option> all;
  const std::size_t num_pieces = block.pieces.size();
  TESSERA_CHECK(num_pieces < 16, "too many pieces to try every set of them: ", num_pieces);
  for (std::size_t set = 0; set < std::size_t{1} << num_pieces; ++set) {
    std::vector<bool> recomputed(num_pieces);
    for (std::size_t piece = 0; piece < num_pieces; ++piece) recomputed[piece] = (set >> piece & 1) != 0;
    all.push_back(priced(values, block, cut_around(block, recomputed)));
  }
  std::ranges::stable_sort(all, {}, &Option::seconds);
  std::vector<Option> out;
  for (const Option& option : all)
    if (std::ranges::none_of(out, [&](const Option& other) { return beats(other, option); }))
      out.push_back(option);
  return out;
}

Cuts cuts_within(const Budget& budget, std::span<const program::Unit> blocks) {
  return Search(budget, blocks).run();
}

}  // namespace tessera::plan
