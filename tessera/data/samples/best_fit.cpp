#include <algorithm>
#include <mutex>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/data/epoch_order.hpp"
#include "tessera/data/samples/bins.hpp"
#include "tessera/data/samples/packing.hpp"

namespace tessera::data {
namespace {

// Note [Best fit without an index]
// The stream is divided into groups of equally many tokens, and a document, or a piece of a long one, belongs
// to the group in which it begins. Each group is packed by itself into the same number of samples, so that
// the group and bin of any sample are a division, and no count of samples has to be kept. That number is
// found when the source is opened, by packing some groups spread over it: what the worst of them needs, and a
// little more. A group that would need still more cuts its shortest pieces into the room that is left.
//
// Samples are read from kMixed groups at a time, which are drawn from the whole source, in an order that
// mixes all of their samples: neighbours in the source are not neighbours in a batch, and of what is packed
// only these groups are held.
constexpr std::uint64_t kMixed = 64;
constexpr std::uint64_t kMeasured = 16;             // groups that are packed to find the number
constexpr std::uint64_t kDocuments = 16384;         // about so many in a group
constexpr std::uint64_t kLeast = 16, kMost = 1024;  // samples of a group

class BestFit : public Packing {
 public:
  explicit BestFit(const PackingInput& input)
      : input_(input), begin_(input.documents->begin(input.first_document)), held_(kMixed) {
    tokens_ = input.documents->begin(input.last) - begin_;
    if (tokens_ == 0) throw UserError("the documents of a source have no token to train on");
    const std::uint64_t documents = input.last - input.first_document;
    const auto wanted = std::clamp<std::uint64_t>(
        static_cast<std::uint64_t>(static_cast<double>(kDocuments) * static_cast<double>(tokens_) /
                                   static_cast<double>(documents) / static_cast<double>(input.sequence)),
        kLeast, kMost);
    num_groups_ = (tokens_ - 1) / (wanted * input.sequence) + 1;
    measure();
  }

  std::uint64_t num_samples() const override { return num_groups_ * bins_; }

  std::vector<Piece> pieces(std::uint64_t index) const override {
    const std::uint64_t stream = epoch_stream(index / num_samples(), input_.source);
    const std::uint64_t place = index % num_samples(), mixed = kMixed * bins_;
    const std::uint64_t first = place / mixed * kMixed, count = std::min(kMixed, num_groups_ - first);
    const std::uint64_t within =
        permuted(place % mixed, count * bins_, input_.seed, random_bits(input_.seed, stream, first) >> 8);
    const std::uint64_t slot = within / bins_;
    return bin(slot, permuted(first + slot, num_groups_, input_.seed, stream), within % bins_);
  }

 private:
  struct Held {
    std::optional<std::uint64_t> group;
    Bins bins;
  };

  std::uint64_t group_begin(std::uint64_t group) const {
    return begin_ + tokens_ / num_groups_ * group + tokens_ % num_groups_ * group / num_groups_;
  }

  // Those that begin in the group.
  std::vector<Piece> pieces_of(std::uint64_t group) const {
    const std::uint64_t begin = group_begin(group), end = group_begin(group + 1), length = input_.sequence;
    std::vector<Piece> out;
    if (begin == end) return out;
    std::vector<std::uint64_t> places(1025);
    for (std::uint64_t document = document_at(*input_.documents, begin); document < input_.last;) {
      const auto count = std::min<std::uint64_t>(places.size(), input_.last + 1 - document);
      input_.documents->begins(document, std::span(places).first(count));
      for (std::uint64_t i = 0; i + 1 < count; ++i) {
        if (places[i] >= end) return out;
        const std::uint64_t skipped = places[i] < begin ? (begin - places[i] + length - 1) / length : 0;
        for (std::uint64_t at = places[i] + skipped * length; at < std::min(places[i + 1], end); at += length)
          out.push_back({at, static_cast<std::uint32_t>(std::min(length, places[i + 1] - at)),
                         at + length < places[i + 1]});
      }
      document += count - 1;
    }
    return out;
  }

  void measure() {
    const std::uint64_t count = std::min(num_groups_, kMeasured);
    std::uint64_t least = ~std::uint64_t{0};
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t needed = best_fit(pieces_of(i * num_groups_ / count), input_.sequence).size();
      least = std::min(least, needed);
      bins_ = std::max(bins_, needed);
    }
    if (count == num_groups_) return;
    // A group may hold up to a sample more than its share, which must fit even if all is cut.
    const std::uint64_t share = (tokens_ / num_groups_ + 1 + input_.sequence - 1) / input_.sequence + 1;
    bins_ = std::max(bins_ + 1 + (bins_ - least) / 2, share);
  }

  std::vector<Piece> bin(std::uint64_t slot, std::uint64_t group, std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    Held& held = held_[slot];
    if (held.group != group) held = {group, best_fit_into(pieces_of(group), input_.sequence, bins_)};
    return held.bins[number];
  }

  PackingInput input_;
  std::uint64_t begin_, tokens_ = 0, num_groups_ = 1, bins_ = 0;  // bins of a group
  mutable std::mutex mutex_;
  mutable std::vector<Held> held_;  // by slot
};

}  // namespace

std::unique_ptr<Packing> best_fit_packing(const PackingInput& input) {
  return std::make_unique<BestFit>(input);
}

}  // namespace tessera::data
