#include "tessera/metrics/trace/intervals.hpp"

#include <algorithm>

namespace tessera::metrics {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals);
  std::vector<Interval> out;
  for (const Interval& next : intervals) {
    if (!out.empty() && next.first <= out.back().second) {
      out.back().second = std::max(out.back().second, next.second);
    } else {
      out.push_back(next);
    }
  }
  return out;
}

double covered_seconds(std::vector<Interval> intervals) {
  double seconds = 0;
  for (const auto& [begin, end] : merged(std::move(intervals))) seconds += end - begin;
  return seconds;
}

double overlap_seconds(std::vector<Interval> a, std::vector<Interval> b) {
  const auto left = merged(std::move(a)), right = merged(std::move(b));
  double seconds = 0;
  for (std::size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const double begin = std::max(left[i].first, right[j].first);
    const double end = std::min(left[i].second, right[j].second);
    seconds += std::max(0.0, end - begin);
    left[i].second < right[j].second ? ++i : ++j;
  }
  return seconds;
}

}  // namespace tessera::metrics
