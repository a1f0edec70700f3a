// Samples as windows of a text file read as bytes, in an order that is a function of (seed, global sample
// index): nothing is shuffled in memory, so the order is the same on every layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/files/random_access_file.hpp"

namespace tessera::data {

// Targets with this value count neither in the loss nor among the valid tokens.
inline constexpr std::int64_t kIgnoredTarget = -1;
inline constexpr std::int64_t kPadding = -1;  // in the place of a document's number

class ByteCorpus {
 public:
  // Throws UserError when the file can't be read or holds less than one window of `sequence` + 1 bytes.
  ByteCorpus(const std::string& path, std::int64_t sequence, std::uint64_t seed);

  std::int64_t sequence() const { return sequence_; }
  // Samples in an epoch; windows start `sequence` bytes apart.
  std::uint64_t num_samples() const { return num_samples_; }
  // Offset in the file of the first byte of global sample `index`; every epoch has its own order.
  std::uint64_t offset_of(std::uint64_t index) const;

  // Row i of both buffers, each [samples, sequence], holds the bytes of samples[i] and the bytes after them.
  // Throws UserError when the file can't be read any more, as when it was cut off under the run.
  void fill(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
            std::span<std::int64_t> targets) const;

 private:
  RandomAccessFile file_;
  std::int64_t sequence_;
  std::uint64_t seed_;
  std::uint64_t num_samples_;
};

// For tests of uneven valid tokens: in the row of sample s, ignores the targets at positions p with
// p mod period < s mod period, so samples differ in how many targets count, and none loses all. A period
// longer than a row is taken as long as the row.
void mask_every(std::int64_t period, std::span<const std::uint64_t> samples, std::span<std::int64_t> targets);

}  // namespace tessera::data
