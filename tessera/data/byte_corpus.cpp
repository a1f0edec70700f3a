#include "tessera/data/byte_corpus.hpp"

#include <algorithm>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/data/epoch_order.hpp"

namespace tessera::data {

ByteCorpus::ByteCorpus(const std::string& path, std::int64_t sequence, std::uint64_t seed)
    : file_(path), sequence_(sequence), seed_(seed) {
  TESSERA_CHECK(sequence > 0, "sequence ", sequence);
  const auto window = static_cast<std::uint64_t>(sequence) + 1;
  const std::uint64_t size = file_.bytes();
  if (size < window)
    throw UserError(cat("data file '", path, "' has ", size, " bytes; a sample of sequence ", sequence,
                        " needs at least ", window, ". Use a longer file or a shorter model.sequence."));
  num_samples_ = (size - 1) / static_cast<std::uint64_t>(sequence);
}

std::uint64_t ByteCorpus::offset_of(std::uint64_t index) const {
  return sample_in_epoch(index, num_samples_, seed_, 0) * static_cast<std::uint64_t>(sequence_);
}

void ByteCorpus::fill(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                      std::span<std::int64_t> targets) const {
  const auto length = static_cast<std::size_t>(sequence_);
  TESSERA_CHECK(tokens.size() == samples.size() * length && targets.size() == tokens.size(), "buffers of ",
                tokens.size(), " and ", targets.size(), " for ", samples.size(), " samples of ", length);
  std::vector<std::byte> window(length + 1);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    file_.read(offset_of(samples[row]), window);
    for (std::size_t i = 0; i < length; ++i) {
      tokens[row * length + i] = std::to_integer<std::int64_t>(window[i]);
      targets[row * length + i] = std::to_integer<std::int64_t>(window[i + 1]);
    }
  }
}

void mask_every(std::int64_t period, std::span<const std::uint64_t> samples,
                std::span<std::int64_t> targets) {
  TESSERA_CHECK(period > 0, "period ", period);
  if (samples.empty()) return;
  const std::size_t length = targets.size() / samples.size();
  TESSERA_CHECK(length * samples.size() == targets.size(), targets.size(), " targets for ", samples.size(),
                " samples");
  const auto step = std::min<std::uint64_t>(static_cast<std::uint64_t>(period), length);
  for (std::size_t row = 0; row < samples.size(); ++row)
    for (std::size_t i = 0; i < length; ++i)
      if (i % step < samples[row] % step) targets[row * length + i] = kIgnoredTarget;
}

}  // namespace tessera::data
