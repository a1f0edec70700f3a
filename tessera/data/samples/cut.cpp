#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/data/epoch_order.hpp"
#include "tessera/data/samples/packing.hpp"

namespace tessera::data {
namespace {

class Cut : public Packing {
 public:
  explicit Cut(const PackingInput& input)
      : input_(input), begin_(input.documents->begin(input.first_document)) {
    const std::uint64_t tokens = input.documents->begin(input.last) - begin_;
    num_samples_ = tokens == 0 ? 0 : (tokens - 1) / input.sequence;
    if (num_samples_ == 0)
      throw UserError(cat("the documents of a source have ", tokens, " tokens; a sample of sequence ",
                          input.sequence, " needs ", input.sequence + 1,
                          ". Use more documents or a shorter model.sequence."));
  }

  std::uint64_t num_samples() const override { return num_samples_; }

  std::vector<Piece> pieces(std::uint64_t index) const override {
    const std::uint64_t window = sample_in_epoch(index, num_samples_, input_.seed, input_.source);
    std::uint64_t place = begin_ + window * input_.sequence;
    const std::uint64_t end = place + input_.sequence;
    std::vector<Piece> out;
    std::uint64_t ends[kBlock];  // of documents, a block at a time
    for (std::uint64_t document = document_at(*input_.documents, place); place < end;) {
      const auto count = std::min<std::uint64_t>(kBlock, input_.last - document);
      input_.documents->begins(document + 1, {ends, count});
      for (std::uint64_t i = 0; i < count && place < end; ++i) {
        const std::uint64_t stop = std::min(ends[i], end);
        if (stop > place) out.push_back({place, static_cast<std::uint32_t>(stop - place), stop < ends[i]});
        place = std::max(place, stop);
      }
      document += count;
    }
    return out;
  }

 private:
  static constexpr std::size_t kBlock = 32;
  PackingInput input_;
  std::uint64_t begin_, num_samples_ = 0;
};

}  // namespace

std::unique_ptr<Packing> cut_packing(const PackingInput& input) { return std::make_unique<Cut>(input); }

}  // namespace tessera::data
