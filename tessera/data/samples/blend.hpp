// Deals global samples to sources by weight. At every prefix each source has had its share of the samples so
// far, to within one sample.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

struct BlendPlace {
  std::size_t source = 0;
  std::uint64_t index = 0;  // of the samples of that source
  bool operator==(const BlendPlace&) const = default;
};

// The order of sources repeats after `period()` samples, of which it holds a table of 6 bytes each. Weights
// with few decimals have a short period; others are rounded to parts of kMostParts of their sum.
class Blend {
 public:
  static constexpr std::uint32_t kMostParts = 1 << 22;

  // Weights need no sum. Throws UserError when one is not above 0, or too small a share to be one part.
  explicit Blend(std::span<const double> weights);

  BlendPlace at(std::uint64_t sample) const;
  // Samples of each source in a period, which they add up to.
  std::span<const std::uint32_t> parts() const { return parts_; }
  std::uint64_t period() const { return sources_.size(); }

 private:
  std::vector<std::uint32_t> parts_;
  std::vector<std::uint16_t> sources_;   // of the samples of a period
  std::vector<std::uint32_t> ordinals_;  // among the samples of that source in the period
};

}  // namespace tessera::data
