// The categories in which memory is planned, counted, reported and drawn.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

// Shards and gathered weights; weight gradients and their shards; optimizer state; values between segments
// and their gradients; tapes and weight work; what an op needs while it runs (with the micro-batches'
// tokens); what lies outside a rank's memory and does not count as held by it; and what was counted but not
// marked.
enum class Category : std::uint8_t { parameters, gradients, optimizer, values, tapes, buffers, host, other };
inline constexpr int kNumCategories = 8;
// Those that a plan tells apart.
inline constexpr std::array kPlannedCategories = {
    Category::parameters, Category::gradients, Category::optimizer, Category::values,
    Category::tapes,      Category::buffers,   Category::host};

constexpr std::string_view name_of(Category category) {
  constexpr std::string_view kNames[kNumCategories] = {"parameters", "gradients", "optimizer", "values",
                                                       "tapes",      "buffers",   "host",      "other"};
  return kNames[static_cast<std::size_t>(category)];
}

// Bytes by category.
struct BytesHeld {
  std::array<std::int64_t, kNumCategories> bytes = {};
  std::int64_t of(Category category) const { return bytes[static_cast<std::size_t>(category)]; }
  std::int64_t& of(Category category) { return bytes[static_cast<std::size_t>(category)]; }
  // All but host.
  std::int64_t total() const {
    std::int64_t out = -of(Category::host);
    for (const std::int64_t part : bytes) out += part;
    return out;
  }
  bool operator==(const BytesHeld&) const = default;
};

}  // namespace tessera
