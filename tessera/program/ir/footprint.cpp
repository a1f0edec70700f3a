#include "tessera/program/ir/footprint.hpp"

#include <algorithm>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera::program {
namespace {

using Act = AllocationEvent::Act;

struct Storage {
  std::string_view name;
  std::int64_t bytes = 0;
  int by_code = 0, by_tape = 0, by_work = 0;
  int holders() const { return by_code + by_tape + by_work; }
};

enum class Keeps : std::uint8_t { nothing, tape, work };

// The storages of one segment while its ops run one after the other.
class Ledger {
 public:
  void forward(std::span<const Piece> pieces, Keeps keeps) {
    for (const Piece& piece : pieces)
      for (const AllocationEvent& moment : piece.forward_events) happen(moment, keeps);
    drop_all_but_the_last();
  }
  void backward(std::span<const Piece> pieces, Keeps keeps) {
    for (std::size_t i = pieces.size(); i-- > 0;)
      for (const AllocationEvent& moment : pieces[i].backward_events) happen(moment, keeps);
  }
  // The products that were put off, each letting go of its operands.
  void weight_half() {
    for (const AllocationEvent& moment : deferred_) {
      pass(moment.scratch_bytes);
      for (const std::string_view name : {moment.storage, moment.other}) release(name, &Storage::by_work);
    }
  }
  // What lies here and did not come from outside counts from zero again; peaks are measured from here.
  void start() { first_ = peak_ = bytes_; }
  std::int64_t peak() const { return peak_ - first_; }
  // What the weight work holds, operands that came from outside included.
  std::int64_t held_by_work() const { return work_bytes_; }
  std::int64_t held() const { return bytes_; }
  // The code lets go of all.
  void drop_all() {
    for (std::size_t i = storages_.size(); i-- > 0;) release(storages_[i].name, &Storage::by_code);
  }
  // The same, but values and gradients that it leaves are cells now. Returns the bytes of those that the tape
  // holds too: they are counted as values.
  std::int64_t hand_over() {
    std::int64_t shared = 0;
    for (Storage& storage : storages_) {
      if (storage.by_code == 0) continue;
      bytes_ -= storage.bytes;
      if (storage.holders() > storage.by_code) shared += storage.bytes;
      storage.bytes = storage.by_code = 0;
    }
    std::erase_if(storages_, [](const Storage& storage) { return storage.holders() == 0; });
    return shared;
  }

 private:
  void happen(const AllocationEvent& moment, Keeps keeps) {
    switch (moment.act) {
      case Act::make:
        return make(moment.storage, moment.bytes);
      case Act::drop:
        return release(moment.storage, &Storage::by_code);
      case Act::tape:
        if (const auto found = find(moment.storage); keeps == Keeps::tape && found != storages_.end())
          ++found->by_tape;
        return;
      case Act::untape:
        return release(moment.storage, &Storage::by_tape);
      case Act::sum:
        return sum(moment);
      case Act::defer:
        return defer(moment, keeps);
    }
  }

  // A segment leaves one value, the one made last; what else it still held goes.
  void drop_all_but_the_last() {
    const auto is_held = [](const Storage& storage) { return storage.by_code > 0; };
    const auto last = std::find_if(storages_.rbegin(), storages_.rend(), is_held);
    if (last == storages_.rend()) return;
    ++last->by_code;
    drop_all();
  }

  void grow(std::int64_t bytes) {
    bytes_ += bytes;
    peak_ = std::max(peak_, bytes_);
  }
  void pass(std::int64_t bytes) {
    grow(bytes);
    bytes_ -= bytes;
  }
  std::vector<Storage>::iterator find(std::string_view name) {
    return std::ranges::find(storages_, name, &Storage::name);
  }
  void make(std::string_view name, std::int64_t bytes) {
    TESSERA_CHECK(find(name) == storages_.end(), "storage ", name, " is made twice");
    storages_.push_back({.name = name, .bytes = bytes, .by_code = 1});
    grow(bytes);
  }
  void release(std::string_view name, int Storage::*holder) {
    const auto found = find(name);
    if (found == storages_.end() || (*found).*holder == 0) return;  // it came from outside
    --((*found).*holder);
    if (found->holders() > 0) return;
    bytes_ -= found->bytes;
    storages_.erase(found);
  }

  void sum(const AllocationEvent& moment) {
    const auto found = find(moment.other);
    if (found != storages_.end() && found->holders() == 1) {
      found->name = moment.storage;
      return;
    }
    make(moment.storage, moment.bytes);
    release(moment.other, &Storage::by_code);
  }

  void defer(const AllocationEvent& moment, Keeps keeps) {
    if (keeps != Keeps::work) return pass(moment.scratch_bytes);
    deferred_.push_back(moment);
    const auto hold = [&](std::string_view name, std::int64_t bytes) {
      if (name.empty()) return;
      const auto found = find(name);
      const bool is_known =
          found != storages_.end() ? found->by_work > 0 : std::ranges::count(outside_work_, name) > 0;
      if (!is_known) work_bytes_ += bytes;
      if (found != storages_.end())
        ++found->by_work;
      else
        outside_work_.push_back(name);
    };
    hold(moment.storage, moment.bytes);
    hold(moment.other, moment.other_bytes);
  }

  std::vector<Storage> storages_;               // in the order in which they are made
  std::vector<std::string_view> outside_work_;  // operands that came from outside
  std::vector<AllocationEvent> deferred_;
  std::int64_t bytes_ = 0, peak_ = 0, first_ = 0, work_bytes_ = 0;
};

// Of pieces that only have sums: all that an op makes is there beside all that it ends.
Footprint of_sums(std::span<const Piece> pieces, std::int64_t read_bytes, std::int64_t written_bytes) {
  Footprint out;
  std::int64_t scratch = 0, backward_scratch = 0;
  for (const Piece& piece : pieces) {
    out.tape_bytes += piece.tape_bytes;
    out.work_bytes += piece.work_bytes;
    scratch = std::max(scratch, piece.scratch_bytes);
    backward_scratch = std::max(backward_scratch, piece.backward_scratch_bytes);
  }
  out.bare_peak = written_bytes + scratch;
  out.forward_peak = out.bare_peak + out.tape_bytes;
  out.backward_peak = read_bytes + backward_scratch;
  out.backward_input_peak = out.backward_peak + out.work_bytes;
  return out;
}

}  // namespace

Footprint footprint(std::span<const Piece> pieces, bool recomputed) {
  Footprint out;
  Ledger bare;
  bare.forward(pieces, Keeps::nothing);
  out.bare_peak = bare.peak();
  for (const Keeps keeps : {Keeps::nothing, Keeps::work}) {
    Ledger ledger;
    ledger.forward(pieces, Keeps::tape);
    out.forward_peak = ledger.peak();
    // A value may end before the tape that shares its memory does. A tape that is made again shares nothing:
    // the values are of the first time.
    if (recomputed) ledger.drop_all();
    const std::int64_t shared = ledger.hand_over();
    out.tape_bytes = ledger.held();
    ledger.start();
    ledger.backward(pieces, keeps);
    (keeps == Keeps::work ? out.backward_input_peak : out.backward_peak) = shared + ledger.peak();
    if (keeps != Keeps::work) continue;
    out.work_bytes = ledger.held_by_work();
    ledger.hand_over();
    ledger.start();
    ledger.weight_half();
    out.backward_weight_peak = ledger.peak();
  }
  return out;
}

Footprint footprint(const Segment& segment, const Tables& tables) {
  const auto pieces =
      std::span(tables.units[segment.unit].pieces).subspan(segment.first_piece, segment.num_pieces);
  if (std::ranges::all_of(pieces, [](const Piece& piece) { return !piece.forward_events.empty(); }))
    return footprint(pieces, segment.recomputed);
  const auto total = [&](const std::vector<std::uint32_t>& values) {
    std::int64_t bytes = 0;
    for (const std::uint32_t value : values) bytes += tables.values[value].bytes;
    return bytes;
  };
  return of_sums(pieces, total(segment.reads), total(segment.writes));
}

}  // namespace tessera::program
