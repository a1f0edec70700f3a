// The median and other summaries of many measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

// The value below which a share q of the values lies (0.5: the median); 0 for none.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace tessera
